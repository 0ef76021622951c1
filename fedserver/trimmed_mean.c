/* Mean of the middle values, column by column: sorts many columns at once. */
#include <assert.h>
#include <string.h>

#include "fedserver/robust.h"

/* Columns that are sorted together: so few that they stay in cache. */
enum { TILE_VALUES = 32768, TILE_MIN = 16, TILE_MAX = 512 };

typedef struct trimming {
    size_t count, cut;
    float *u;
} trimming;

/* a, b = the smaller and the larger of each pair */
static void exchange(float *restrict a, float *restrict b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float x = a[i], y = b[i];
        a[i] = x < y ? x : y;
        b[i] = x < y ? y : x;
    }
}

/* Sort n columns of `count` values, with Batcher's network (Knuth, The Art of Computer Programming,
 * volume 3, algorithm 5.2.2M): which pairs it compares does not depend on the values, so that whole
 * rows are compared at a time. */
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

/* u = mean of the rows [cut, count - cut) of n sorted columns */
static void mean_of_middle(const trimming *t, const float *x, size_t stride, float *u, size_t n) {
    double sum[TILE_MAX];
    memset(sum, 0, sizeof sum);
    for (size_t k = t->cut; k < t->count - t->cut; k++) {
        const float *row = x + k * stride;
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
