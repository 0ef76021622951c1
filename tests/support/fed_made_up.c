/* A made-up log of a simulation. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_made_up.h"

#include <math.h>

#include "fed/rng.h"
#include "fed_test.h"

static double dice(fed_rng *rng) {
    return (double)fed_rng_below(rng, 1000) / 1000;
}

static void make_up_round(sim_log *log, size_t rounds, double rate, fed_rng *rng) {
    sim_round *r = NULL;
    const double n = (double)(log->round_count + 1),
                 before = log->round_count == 0 ? 0 : log->rounds[log->round_count - 1].virtual_s;
    assert_fed_ok(sim_log_add(log, &r));
    r->round = (uint32_t)n;
    r->virtual_s = before + 30 + 20 * dice(rng);
    r->wall_s = 0.4 * n;
    for (size_t k = 0; k < log->client_count; k++) {
        if (dice(rng) < 0.6 + 0.3 * sin(6.3 * ((double)k / (double)log->client_count + n / 24))) {
            sim_log_attend(log, log->round_count - 1, k);
            log->clients[k].counted++;
            log->clients[k].up_bytes += (uint64_t)(4000 * rate * (0.9 + 0.2 * dice(rng)));
            log->clients[k].down_bytes += 52000;
            r->counted++;
        }
    }
    r->refused = r->round % 17 == 0;
    r->up_bytes = (uint64_t)(4000 * rate) * r->counted;
    r->down_bytes = 52000 * (uint64_t)r->counted;
    r->update_bytes = (uint64_t)(3800 * rate) * r->counted;
    r->delta_bytes = 51000;
    r->train_loss = 2.3 * exp(-n / (9 / rate)) + 0.03 + 0.02 * dice(rng);
    if (r->round % 2 == 0 || r->round == rounds) {
        r->test_loss = 2.3 * exp(-n / (10 / rate)) + 0.06 + 0.01 * dice(rng);
        r->accuracy = 0.985 - 0.88 * exp(-n / (6 / rate)) - 0.006 * dice(rng);
        r->worst_tenth = r->accuracy - 0.1;
    }
}

void fed_made_up_log(sim_log *log, size_t clients, size_t rounds, double rate) {
    fed_rng rng;
    fed_rng_init(&rng, 7, 0, 0);
    *log = (sim_log){.clients = calloc(clients, sizeof *log->clients), .client_count = clients};
    assert_non_null(log->clients);
    for (size_t k = 0; k < clients; k++) {
        log->clients[k] = (sim_account){.samples = (uint32_t)(100 + k),
                                        .busy_s = 0.25 + (double)k,
                                        .present = true,
                                        .identical = true};
    }
    log->parameters = 431080;
    for (size_t r = 0; r < rounds; r++) {
        make_up_round(log, rounds, rate, &rng);
        log->steps += 10 * (uint64_t)log->rounds[r].counted;
    }
    log->digest = 0x0123456789abcdefULL;
    log->finished = true;
    log->wall_s = 0.4 * (double)rounds;
    log->train_cpu_s = 0.7 * (double)rounds;
    log->evaluate_cpu_s = 0.03 * (double)rounds;
    log->total_cpu_s = 0.78 * (double)rounds;
}
