/* Choose values exactly: the k largest and the k most negative ones, or the k of largest
 * magnitude. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_SELECT_H
#define FEDCODEC_PRIM_SELECT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"
#include "fedcodec/codec_vtable.h"

/** The chosen values, in the order of their positions. */
typedef struct fedcodec_chosen {
    uint32_t *index; /* ascending; index and value are in the work memory */
    float *value;
    size_t count;
} fedcodec_chosen;

/** Return p * n rounded up, which is the most values that a codec sends for a fraction p. Returns
 * at least 1 if n > 0. */
static inline size_t fedcodec_select_most(double p, size_t n) {
    double k = ceil(p * (double)n);
    return n == 0 ? 0 : k < 1.0 ? 1 : (size_t)k;
}

/** Return the work memory of fedcodec_select for n values, in bytes. 1 <= k <= n, or both 0. */
size_t fedcodec_select_work_size(size_t n, size_t k);

/**
 * job->residual += job->x; then choose from the residual the k largest positive values and the k
 * most negative values. If a sign has fewer than k values, all of them are chosen. Of equal values
 * those with lower positions are chosen. The result is in job->work. FED_ENONFINITE: a value is not
 * finite.
 */
fed_status fedcodec_select(const fedcodec_job *job, size_t k, fedcodec_chosen *positive,
                           fedcodec_chosen *negative) FED_CHECKED;

/** Return the work memory of fedcodec_select_magnitude, in bytes; k as in
 * fedcodec_select_work_size. */
size_t fedcodec_select_magnitude_work_size(size_t n, size_t k);

/** Implements work_size for a codec with fedcodec_select_magnitude whose first parameter is p. */
static inline size_t fedcodec_select_magnitude_work(const double *param, size_t n) {
    return fedcodec_select_magnitude_work_size(n, fedcodec_select_most(param[0], n));
}

/** Like fedcodec_select, but choose up to k values of largest magnitude, never a zero. */
fed_status fedcodec_select_magnitude(const fedcodec_job *job, size_t k,
                                     fedcodec_chosen *chosen) FED_CHECKED;

/** Return the work memory of fedcodec_select_above, in bytes. */
size_t fedcodec_select_above_work_size(size_t n);

/** job->residual += job->x; then choose all values whose magnitude is at least `least`, which is
 * above 0. FED_ENONFINITE: a value is not finite. */
fed_status fedcodec_select_above(const fedcodec_job *job, float least,
                                 fedcodec_chosen *chosen) FED_CHECKED;

/** Return the mean magnitude; 0 if no value was chosen. The result has the same bits as a sum in
 * the order of positions. */
double fedcodec_mean_magnitude(fedcodec_chosen chosen);

#endif
