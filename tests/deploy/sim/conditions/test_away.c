/* The draw of clients that are away in a round. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/conditions/away.h"
#include "fed_cases.h"

enum { CLIENTS = 400, ROUNDS = 60 };

static uint32_t away_in(uint64_t seed, uint32_t round, double fraction) {
    bool away[CLIENTS];
    uint32_t count = 0;
    sim_draw_away(seed, round, CLIENTS, fraction, away);
    for (uint32_t k = 0; k < CLIENTS; k++) {
        count += away[k] ? 1U : 0U;
    }
    return count;
}

FED_TEST(exactly_the_fraction_is_away_in_every_round) {
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        assert_int_equal(away_in(1, round, 0.1), 40);
        assert_int_equal(away_in(1, round, 0.0), 0);
    }
    assert_int_equal(away_in(1, 1, 0.999), 399);
}

FED_TEST(a_client_is_away_in_about_its_share_of_the_rounds) {
    uint32_t rounds[CLIENTS] = {0};
    bool away[CLIENTS];
    for (uint32_t round = 1; round <= 1000; round++) {
        sim_draw_away(7, round, CLIENTS, 0.1, away);
        for (uint32_t k = 0; k < CLIENTS; k++) {
            rounds[k] += away[k] ? 1U : 0U;
        }
    }
    for (uint32_t k = 0; k < CLIENTS; k++) {
        assert_in_range(rounds[k], 50, 160);
    }
}

FED_TEST(another_seed_sends_others_away) {
    uint32_t same = 0;
    bool one[CLIENTS], again[CLIENTS], other[CLIENTS];
    sim_draw_away(1, 5, CLIENTS, 0.5, one);
    sim_draw_away(1, 5, CLIENTS, 0.5, again);
    sim_draw_away(2, 5, CLIENTS, 0.5, other);
    assert_memory_equal(one, again, sizeof one);
    for (uint32_t k = 0; k < CLIENTS; k++) {
        same += one[k] == other[k] ? 1U : 0U;
    }
    assert_in_range(same, 140, 260);
}
