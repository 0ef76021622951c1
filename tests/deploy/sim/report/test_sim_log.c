/* A run's log: rounds, clients that took part, and NAN for missing measurements. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "deploy/sim/report/sim_log.h"
#include "fed_cases.h"

enum { CLIENTS = 11, ROUNDS = 40 };

static void fill(sim_log *log) {
    *log = (sim_log){.clients = calloc(CLIENTS, sizeof(sim_account)), .client_count = CLIENTS};
    assert_non_null(log->clients);
    for (uint32_t r = 1; r <= ROUNDS; r++) {
        sim_round *round = NULL;
        assert_fed_ok(sim_log_add(log, &round));
        round->round = r;
        for (size_t k = 0; k < CLIENTS; k++) {
            if ((k + r) % 3 == 0) {
                sim_log_attend(log, r - 1, k);
            }
        }
    }
}

FED_TEST(test_each_round_keeps_who_took_part) {
    sim_log log;
    fill(&log);
    for (size_t i = 0; i < ROUNDS; i++) {
        assert_int_equal(log.rounds[i].round, i + 1);
        for (size_t k = 0; k < CLIENTS; k++) {
            assert_int_equal(sim_log_attended(&log, i, k), (k + i + 1) % 3 == 0);
        }
    }
    sim_log_free(&log);
}

FED_TEST(test_the_accuracy_is_that_of_the_last_model_measured) {
    sim_log log;
    fill(&log);
    assert_true(isnan(sim_log_accuracy(&log)));
    log.rounds[3].accuracy = 0.5;
    log.rounds[20].accuracy = 0.75;
    assert_true(sim_log_accuracy(&log) == 0.75);
    sim_log_free(&log);
}
