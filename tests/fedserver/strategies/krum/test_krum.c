/* Krum, against its definition. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed_cases.h"
#include "strategy_case.h"

static void choose(const strategy_round *round, int f, double *change) {
    int best = 0;
    for (int d = 1; d < CASE_DEVICES; d++) {
        best = strategy_case_score(round, d, f) < strategy_case_score(round, best, f) ? d : best;
    }
    for (int i = 0; i < CASE_VALUES; i++) {
        change[i] = (double)round->x[best][i];
    }
}

static void with_none_hostile(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    choose(round, 0, change);
}

static void with_two_hostile(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    choose(round, 2, change);
}

FED_TEST(it_is_the_update_with_the_nearest_neighbours) {
    strategy_case_follows("krum:f=0", with_none_hostile);
    strategy_case_follows("krum:f=2", with_two_hostile);
}

/* Devices on a line: three very close together and four farther apart. Krum with f = 2 uses three
 * neighbours. With two it would choose device 0, with four device 3. */
FED_TEST(a_score_counts_all_but_f_and_two_neighbours) {
    static const float place[CASE_DEVICES] = {0.0f, 0.01f, -0.01f, 10.0f, 11.0f, 11.1f, 12.0f};
    enum { BEST = 4 };
    strategy_round round[CASE_ROUNDS];
    strategy_models models;
    strategy_house house;
    for (int r = 0; r < CASE_ROUNDS; r++) {
        for (int d = 0; d < CASE_DEVICES; d++) {
            round[r].samples[(d + r) % CASE_DEVICES] = 1;
            for (int i = 0; i < CASE_VALUES; i++) {
                round[r].x[(d + r) % CASE_DEVICES][i] = place[d] / 64;
            }
        }
    }
    strategy_house_open(&house, false);
    strategy_house_play(&house, "krum:f=2", round, &models);
    strategy_house_close(&house);
    for (int r = 0; r < CASE_ROUNDS; r++) {
        for (int i = 0; i < CASE_VALUES; i++) {
            float moved = models.version[r + 1][i] - models.version[r][i];
            assert_true(fabsf(moved - place[BEST] / 64) < 1e-4f);
        }
    }
}

FED_TEST(one_hostile_device_does_not_move_it) {
    assert_true(strategy_case_withstands("krum:f=1"));
}
