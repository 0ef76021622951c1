/* Launches of select.cl: the k values of largest magnitude, for codecs that send few values. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_GPU_SELECT_H
#define FEDCODEC_GPU_SELECT_H

#include "codecs/gpu/gpu_codec_vtable.h"

enum { FEDCODEC_GPU_EACH = 8 }; /* values of a work-item, in kernels that keep their order */

/** What a codec lacks whose values are to be narrow. */
#define FEDCODEC_GPU_LACKS_FORMS                                                                   \
    "GPUs send values with values=float32 only; the processor sends the others"

/** Where things lie in the work memory of a choice; all are the device's. */
typedef struct fedcodec_gpu_choice {
    uint32_t k, sides; /* 1: by magnitude; 2: the k of each sign */
    uint32_t groups;   /* of kernels that keep the order of n values */
    bool sampled;      /* candidates are listed */
    void *chosen;      /* `side` of select.cl, four */
    uint32_t *bins, *totals, *flag, *tiles;
    uint32_t *found, *index; /* candidates */
} fedcodec_gpu_choice;

/** Bytes of that, a multiple of FEDCODEC_GPU_ALIGN. */
size_t fedcodec_gpu_choice_size(uint32_t sides, size_t k, size_t n);
fedcodec_gpu_choice fedcodec_gpu_choice_in(void *work, uint32_t sides, size_t k, size_t n);

/** Add x to the residual, and find the choice; then tiles and totals count what each group of the
 * residual's values holds. */
fed_status fedcodec_gpu_choose(const fedcodec_gpu_job *job,
                               const fedcodec_gpu_choice *c) FED_CHECKED;

/** Sums of what is before, in each of `rows` rows of `length` numbers; totals: of whole rows. */
fed_status fedcodec_gpu_scan(const fedcodec_gpu_job *job, uint32_t rows, uint32_t *at,
                             uint32_t length, uint32_t *totals) FED_CHECKED;

#endif
