/* For tests of strategies: rounds on a real coordinator, compared with a simple computation. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TEST_STRATEGY_CASE_H
#define FED_TEST_STRATEGY_CASE_H

#include "coordinator_fixture.h"

/* The model has batch normalization: its last CASE_VALUES - CASE_TRAINED values are running
 * statistics. */
enum { CASE_DEVICES = 7, CASE_ROUNDS = 4, CASE_VALUES = 55, CASE_TRAINED = 51 };

typedef struct strategy_round {
    float x[CASE_DEVICES][CASE_VALUES];
    uint32_t samples[CASE_DEVICES];
} strategy_round;

/** Draw random updates of roughly the same direction. */
void strategy_case_draw(uint64_t seed, strategy_round round[CASE_ROUNDS]);

typedef struct strategy_models {
    float version[CASE_ROUNDS + 1][CASE_VALUES];
} strategy_models;

typedef struct strategy_house {
    coordinator coordinator;
    test_device device[CASE_DEVICES];
    bool rough; /* devices send in another order, and the coordinator is killed in between */
} strategy_house;

void strategy_house_open(strategy_house *house, bool rough);
void strategy_house_close(strategy_house *house);

/** Run the rounds as a new task of this strategy. */
void strategy_house_play(strategy_house *house, const char *strategy,
                         const strategy_round round[CASE_ROUNDS], strategy_models *models);

/** Computes a round's change[CASE_VALUES] of the model. `memory` begins with zeros, and lasts from
 * round to round. */
typedef void (*strategy_reference)(const strategy_round *round, double *memory, double *change);

/** Check that each new version is the previous one plus the reference's change. */
void strategy_case_follows(const char *strategy, strategy_reference reference);

/** Compute the mean of the updates, weighted by samples. */
void strategy_case_mean(const strategy_round *round, double *change);

/** Write value i of all devices' updates in ascending order. */
void strategy_case_sorted(const strategy_round *round, int i, double value[CASE_DEVICES]);

/** Return Krum's score of device d if up to f devices are hostile. */
double strategy_case_score(const strategy_round *round, int d, int f);

/** Let one device send huge values. Returns whether each value of the round's change stays within
 * the other devices' values. */
bool strategy_case_withstands(const char *strategy);

#endif
