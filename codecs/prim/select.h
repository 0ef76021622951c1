/* The k largest and the k most negative values, or the k of largest magnitude, exactly. */
#ifndef FEDCODEC_PRIM_SELECT_H
#define FEDCODEC_PRIM_SELECT_H

#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"
/** Positions of values, ascending. */
typedef struct fedcodec_chosen {
    const uint32_t *index; /* in the work memory */
    size_t count;
} fedcodec_chosen;

/** Bytes of work memory for either selection. 1 <= k <= n, or both 0. */
size_t fedcodec_select_work_size(size_t n, size_t k);

/**
 * Choose the k largest of the positive values and the k most negative of the negative ones; all of
 * them where there are fewer than k. Of equal values the one of lower index comes first. x must be
 * finite, n < 2^32. work: fedcodec_select_work_size bytes, aligned for uint32_t; the result lies in
 * it.
 */
void fedcodec_select(const float *x, size_t n, size_t k, void *work, fedcodec_chosen *positive,
                     fedcodec_chosen *negative);

/** Likewise for fedcodec_select_magnitude: about half of it. */
size_t fedcodec_select_magnitude_work_size(size_t n, size_t k);

/** Choose the k values of largest magnitude, zeros never: all others where these are fewer than k.
 * Else like fedcodec_select: ties, limits. */
void fedcodec_select_magnitude(const float *x, size_t n, size_t k, void *work,
                               fedcodec_chosen *chosen);

#endif
