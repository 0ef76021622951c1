/* The k largest and the k most negative values, or the k of largest magnitude, exactly. */
#ifndef FEDCODEC_PRIM_SELECT_H
#define FEDCODEC_PRIM_SELECT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"
#include "fedcodec/codec_vtable.h"

/** Values that were chosen, in the order of their positions. */
typedef struct fedcodec_chosen {
    const uint32_t *index; /* ascending; like the values in the work memory */
    const float *value;
    size_t count;
} fedcodec_chosen;

/** How many of n values a codec with that p sends at most: p * n, rounded up, at least one. */
static inline size_t fedcodec_select_most(double p, size_t n) {
    double k = ceil(p * (double)n);
    return n == 0 ? 0 : k < 1.0 ? 1 : (size_t)k;
}

/** Bytes of work memory for fedcodec_select: of n values up to k of each sign. 1 <= k <= n, or
 * both 0. */
size_t fedcodec_select_work_size(size_t n, size_t k);

/**
 * job->residual += job->x; then choose of its values the k largest of the positive ones and the k
 * most negative of the negative ones; all of them where there are fewer than k. Of equal values the
 * one of lower index comes first. The result lies in job->work. FED_ENONFINITE: some value is not
 * finite.
 */
fed_status fedcodec_select(const fedcodec_job *job, size_t k, fedcodec_chosen *positive,
                           fedcodec_chosen *negative) FED_CHECKED;

/** Likewise for fedcodec_select_magnitude. */
size_t fedcodec_select_magnitude_work_size(size_t n, size_t k);

/** Like fedcodec_select, but choose the k values of largest magnitude, zeros never: all others
 * where these are fewer than k. */
fed_status fedcodec_select_magnitude(const fedcodec_job *job, size_t k,
                                     fedcodec_chosen *chosen) FED_CHECKED;

/** The mean of the magnitudes, added in the order of their positions; 0 of none. */
double fedcodec_mean_magnitude(fedcodec_chosen chosen);

#endif
