/* A run's log in memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/report/sim_log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t sim_log_row(size_t clients) {
    return (clients + 7) / 8;
}

/** Return the block of `count` elements of `size` bytes with room for another one; NULL: out of
 * memory. The block doubles whenever `count` is a power of two. */
static void *grow(void *block, size_t count, size_t size) {
    return (count & (count - 1)) != 0 ? block : realloc(block, (count == 0 ? 1 : 2 * count) * size);
}

fed_status sim_log_add(sim_log *log, sim_round **round) {
    const size_t row = sim_log_row(log->client_count);
    sim_round *rounds = grow(log->rounds, log->round_count, sizeof *rounds);
    FED_REQUIRE(rounds != NULL, FED_ENOMEM);
    log->rounds = rounds;
    uint8_t *attended = grow(log->attended, log->round_count, row);
    FED_REQUIRE(attended != NULL, FED_ENOMEM);
    log->attended = attended;
    memset(attended + log->round_count * row, 0, row);
    *round = &rounds[log->round_count++];
    **round =
        (sim_round){.test_loss = (double)NAN, .accuracy = (double)NAN, .worst_tenth = (double)NAN};
    return FED_OK;
}

void sim_log_attend(sim_log *log, size_t round_index, size_t client) {
    uint8_t *byte = &log->attended[round_index * sim_log_row(log->client_count) + client / 8];
    *byte = (uint8_t)(*byte | 1U << client % 8);
}

bool sim_log_attended(const sim_log *log, size_t round_index, size_t client) {
    return (log->attended[round_index * sim_log_row(log->client_count) + client / 8] >> client % 8 &
            1) != 0;
}

double sim_log_test_loss(const sim_log *log) {
    for (size_t i = log->round_count; i > 0; i--) {
        if (!isnan(log->rounds[i - 1].test_loss)) {
            return log->rounds[i - 1].test_loss;
        }
    }
    return (double)NAN;
}

double sim_log_accuracy(const sim_log *log) {
    for (size_t i = log->round_count; i > 0; i--) {
        if (!isnan(log->rounds[i - 1].accuracy)) {
            return log->rounds[i - 1].accuracy;
        }
    }
    return (double)NAN;
}

static int compare_shares(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double sim_mean_of(double *accuracy, size_t n, double *worst) {
    const size_t tenth = (n + 9) / 10;
    double sum = 0;
    qsort(accuracy, n, sizeof *accuracy, compare_shares);
    for (size_t k = 0; k < n; k++) {
        sum += accuracy[k];
        *worst = k + 1 == tenth ? sum / (double)tenth : *worst;
    }
    return sum / (double)n;
}

/** Return the mean square of the distances from the mean. */
static double variance_of(const double *share, size_t n, double mean) {
    double squares = 0;
    for (size_t k = 0; k < n; k++) {
        squares += (share[k] - mean) * (share[k] - mean);
    }
    return squares / (double)n;
}

fed_status sim_log_personal(const sim_log *log, sim_personal *p) {
    double *share = malloc(2 * log->client_count * sizeof *share + 1);
    FED_REQUIRE(share != NULL, FED_ENOMEM);
    size_t n = 0;
    for (size_t k = 0; k < log->client_count; k++) {
        if (log->clients[k].held > 0) {
            share[n] = log->clients[k].shared;
            share[log->client_count + n++] = log->clients[k].personal;
        }
    }
    *p = (sim_personal){.clients = n};
    if (n > 0) {
        p->shared = sim_mean_of(share, n, &p->shared_worst);
        p->shared_variance = variance_of(share, n, p->shared);
        p->personal = sim_mean_of(share + log->client_count, n, &p->personal_worst);
    }
    free(share);
    return FED_OK;
}

void sim_log_free(sim_log *log) {
    free(log->rounds);
    free(log->clients);
    free(log->attended);
    *log = (sim_log){0};
}
