/* Checks a strategy: whole rounds on a real coordinator, compared with a reference in the test. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TEST_STRATEGY_CASE_H
#define FED_TEST_STRATEGY_CASE_H

#include "coordinator_fixture.h"

/* The model has batch normalization: its last values are running statistics. */
enum { CASE_DEVICES = 7, CASE_ROUNDS = 4, CASE_VALUES = 55, CASE_TRAINED = 51 };

/** What each device sends in a round. */
typedef struct strategy_round {
    float x[CASE_DEVICES][CASE_VALUES];
    uint32_t samples[CASE_DEVICES];
} strategy_round;

/** Draw random updates that roughly agree on a direction. */
void strategy_case_draw(uint64_t seed, strategy_round round[CASE_ROUNDS]);

/** The model's versions. The first is the model that the task starts with. */
typedef struct strategy_models {
    float version[CASE_ROUNDS + 1][CASE_VALUES];
} strategy_models;

/** A coordinator with its devices, for any number of tasks. */
typedef struct strategy_house {
    coordinator coordinator;
    test_device device[CASE_DEVICES];
    bool rough; /* devices report in the opposite order; the coordinator is killed after the
                   first update of each round, in its middle, and after the last update */
} strategy_house;

void strategy_house_open(strategy_house *house, bool rough);
void strategy_house_close(strategy_house *house);

/** Run the rounds as a new task. */
void strategy_house_play(strategy_house *house, const char *strategy,
                         const strategy_round round[CASE_ROUNDS], strategy_models *models);

/** Computes change[CASE_VALUES] of a round. `memory` keeps values from round to round; it is 0 at
 * first. */
typedef void (*strategy_reference)(const strategy_round *round, double *memory, double *change);

/** Check that each version is the version before it plus the reference's change. */
void strategy_case_follows(const char *strategy, strategy_reference reference);

/** The mean weighted by samples. Strategies that only apply the mean in different ways use it as
 * their reference. */
void strategy_case_mean(const strategy_round *round, double *change);

/** Value i of each device, in ascending order. */
void strategy_case_sorted(const strategy_round *round, int i, double value[CASE_DEVICES]);

/** Krum's score of device d, where f devices may be hostile. */
double strategy_case_score(const strategy_round *round, int d, int f);

/** One device sends values as far from the others' as an update may hold. Returns whether each
 * value of the round's change stays within what the honest devices sent. */
bool strategy_case_withstands(const char *strategy);

#endif
