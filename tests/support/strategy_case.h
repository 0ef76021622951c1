/* A strategy at work: whole rounds on a real coordinator, beside what the test says it must do. */
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

/** Updates that agree on a direction, more or less. */
void strategy_case_draw(uint64_t seed, strategy_round round[CASE_ROUNDS]);

/** The model's versions, the first being what the task starts with. */
typedef struct strategy_models {
    float version[CASE_ROUNDS + 1][CASE_VALUES];
} strategy_models;

/** A coordinator with its devices, for any number of tasks. */
typedef struct strategy_house {
    coordinator coordinator;
    test_device device[CASE_DEVICES];
    bool rough; /* devices report in the opposite order, and the coordinator is killed after the
                   first update of each round, in its midst, and after the last */
} strategy_house;

void strategy_house_open(strategy_house *house, bool rough);
void strategy_house_close(strategy_house *house);

/** Play the rounds, as a new task. */
void strategy_house_play(strategy_house *house, const char *strategy,
                         const strategy_round round[CASE_ROUNDS], strategy_models *models);

/** change[CASE_VALUES] of a round; what lasts over rounds is in `memory`, zeros at first. */
typedef void (*strategy_reference)(const strategy_round *round, double *memory, double *change);

/** Each version must be the one before it plus the reference's change. */
void strategy_case_follows(const char *strategy, strategy_reference reference);

/** Mean weighted by samples, the reference of all that only differ in what they do with it. */
void strategy_case_mean(const strategy_round *round, double *change);

/** Value i of each device, in ascending order. */
void strategy_case_sorted(const strategy_round *round, int i, double value[CASE_DEVICES]);

/** Krum's score of device d, where f may be hostile. */
double strategy_case_score(const strategy_round *round, int d, int f);

/** With one device that sends what is farthest from the others, by as much as an update may hold:
 * does a round's change stay within what the honest ones sent, value by value? */
bool strategy_case_withstands(const char *strategy);

#endif
