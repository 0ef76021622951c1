/* Krum: finds the updates that lie nearest to the others, and computes their mean. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "fedserver/strategies/robust.h"

/* Squared differences of TILE columns are added as floats in LANES sums, which are added as
 * doubles. */
enum { TILE = 256, LANES = 16 };

typedef struct krum {
    size_t count;
    double *distance; /* [count, count]: squared distances of rows i < j; the rest is not used */
    double *nearest;  /* [count]: room for a row's distances while its score is computed */
    double *score;
    size_t *chosen; /* [m]: indices of the chosen rows, ascending */
    size_t m;
    float *u;
} krum;

/* Sum of (a - b)^2 over at most TILE values, in the same order on every machine. */
static double squared_distance(const float *restrict a, const float *restrict b, size_t n) {
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            float d = a[i + k] - b[i + k];
            lane[k] += d * d;
        }
    }
    for (; i < n; i++) {
        float d = a[i] - b[i];
        lane[i % LANES] += d * d;
    }
    double sum = 0;
    for (size_t k = 0; k < LANES; k++) {
        sum += (double)lane[k];
    }
    return sum;
}

static void add_distances(void *user, float *block, size_t first, size_t width) {
    (void)first;
    const krum *k = user;
    for (size_t at = 0; at < width; at += TILE) {
        size_t n = width - at < TILE ? width - at : TILE;
        for (size_t i = 0; i < k->count; i++) {
            for (size_t j = i + 1; j < k->count; j++) {
                k->distance[i * k->count + j] +=
                    squared_distance(block + i * width + at, block + j * width + at, n);
            }
        }
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void compute_scores(const krum *k, size_t f) {
    size_t others = k->count - 1;
    size_t neighbours = others > f + 1 ? others - f - 1 : others > 0;
    for (size_t i = 0; i < k->count; i++) {
        for (size_t j = 0, n = 0; j < k->count; j++) {
            if (j != i) {
                k->nearest[n++] = k->distance[(i < j ? i : j) * k->count + (i < j ? j : i)];
            }
        }
        qsort(k->nearest, others, sizeof *k->nearest, by_value);
        k->score[i] = 0;
        for (size_t n = 0; n < neighbours; n++) {
            k->score[i] += k->nearest[n];
        }
    }
}

/* Choose the m best rows by simple selection: at most 2^20 steps. */
static void choose(const krum *k) {
    bool taken[FEDSERVER_KRUM_ROWS] = {false};
    for (size_t n = 0; n < k->m; n++) {
        size_t best = k->count;
        for (size_t i = 0; i < k->count; i++) {
            if (!taken[i] && (best == k->count || k->score[i] < k->score[best])) {
                best = i;
            }
        }
        taken[best] = true;
    }
    for (size_t i = 0, n = 0; i < k->count; i++) {
        if (taken[i]) {
            k->chosen[n++] = i;
        }
    }
}

static void mean_of_chosen(void *user, float *block, size_t first, size_t width) {
    const krum *k = user;
    for (size_t i = 0; i < width; i++) {
        double sum = 0;
        for (size_t n = 0; n < k->m; n++) {
            sum += (double)block[k->chosen[n] * width + i];
        }
        k->u[first + i] = (float)(sum / (double)k->m);
    }
}

fed_status fedserver_krum_mean(const fedserver_rows *rows, size_t f, size_t m, float *u,
                               fed_error *err) {
    size_t count = rows->count;
    assert(m >= 1 && m <= count && count <= FEDSERVER_KRUM_ROWS);
    double *numbers = calloc(count * (count + 2), sizeof *numbers);
    if (numbers == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the distances of %zu updates", count);
    }
    size_t chosen[FEDSERVER_KRUM_ROWS];
    krum k = {.count = count,
              .distance = numbers,
              .nearest = numbers + count * count,
              .score = numbers + count * (count + 1),
              .chosen = chosen,
              .m = m,
              .u = u};
    fed_status status = fedserver_rows_each(rows, add_distances, &k, err);
    if (status == FED_OK) {
        compute_scores(&k, f);
        choose(&k);
        status = fedserver_rows_each(rows, mean_of_chosen, &k, err);
    }
    free(numbers);
    return status;
}
