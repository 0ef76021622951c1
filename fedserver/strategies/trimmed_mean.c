/* Computes the mean of the middle values of each column, by sorting many columns at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "fedserver/strategies/robust.h"

/* At most TILE_MAX columns are sorted together, and fewer if they have more than TILE_VALUES
 * values, so that they stay in the processor's cache; but not fewer than TILE_MIN, where there are
 * as many. */
enum { TILE_VALUES = 32768, TILE_MIN = 16, TILE_MAX = 512 };

typedef struct trimming {
    size_t count, cut;
    float *u;
} trimming;

/* Turn floats into integers (keys) of the same order, or such integers back into floats. Compilers
 * turn comparisons of integers into vector instructions, and -0 is always before 0. */
static void swap_keys(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits ^= bits < 0 ? INT32_MAX : 0;
        memcpy(x + i, &bits, sizeof bits);
    }
}

static void exchange(float *restrict a, float *restrict b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int32_t x, y;
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        int32_t low = x < y ? x : y, high = x < y ? y : x;
        memcpy(a + i, &low, sizeof low);
        memcpy(b + i, &high, sizeof high);
    }
}

/* Sort n columns of `count` keys with Batcher's network (Knuth, The Art of Computer Programming,
 * volume 3, algorithm 5.2.2M). The pairs that the network compares do not depend on the values. So
 * the code compares whole rows at a time. */
static void sort_columns(float *x, size_t count, size_t stride, size_t n) {
    size_t top = 1;
    while (top * 2 < count) {
        top *= 2;
    }
    for (size_t p = top; p > 0; p /= 2) {
        size_t q = top, r = 0, d = p;
        for (;;) {
            for (size_t i = 0; i + d < count; i++) {
                if ((i & p) == r) {
                    exchange(x + i * stride, x + (i + d) * stride, n);
                }
            }
            if (q == p) {
                break;
            }
            d = q - p;
            q /= 2;
            r = p;
        }
    }
}

static void mean_of_middle(const trimming *t, float *x, size_t stride, float *u, size_t n) {
    double sum[TILE_MAX];
    memset(sum, 0, sizeof sum);
    for (size_t k = t->cut; k < t->count - t->cut; k++) {
        float *row = x + k * stride;
        swap_keys(row, n);
        for (size_t i = 0; i < n; i++) {
            sum[i] += (double)row[i];
        }
    }
    for (size_t i = 0; i < n; i++) {
        u[i] = (float)(sum[i] / (double)(t->count - 2 * t->cut));
    }
}

static void trim_block(void *user, float *block, size_t first, size_t width) {
    const trimming *t = user;
    size_t tile = TILE_VALUES / t->count;
    tile = tile < TILE_MIN ? TILE_MIN : tile > TILE_MAX ? TILE_MAX : tile;
    for (size_t at = 0; at < width; at += tile) {
        size_t n = width - at < tile ? width - at : tile;
        for (size_t k = 0; k < t->count; k++) {
            swap_keys(block + at + k * width, n);
        }
        sort_columns(block + at, t->count, width, n);
        mean_of_middle(t, block + at, width, t->u + first + at, n);
    }
}

fed_status fedserver_trimmed_mean(const fedserver_rows *rows, size_t cut, float *u,
                                  fed_error *err) {
    assert(2 * cut < rows->count);
    trimming t = {.count = rows->count, .cut = cut, .u = u};
    return fedserver_rows_each(rows, trim_block, &t, err);
}
