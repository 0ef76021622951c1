/* A worker group that exchanges gradients. A gradient depends on rank and step only, so that a test
 * can check any sum. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXCHANGE_GROUP_H
#define EXCHANGE_GROUP_H

#include "feddc/exchange.h"
#include "link_group.h"

typedef struct exchange_run {
    const feddc_link_vtable *link;
    const char *collective, *codec, *pull, *nic;
    uint32_t size, steps;
    uint32_t plain_every; /* one of so many steps is uncompressed; 0: none */
    /* Tensors are put in and taken in random order. A step is put in before the previous step is
     * taken. */
    bool rough;
    bool poisoned; /* rank 1's gradient of step 1 holds a NaN */
    fed_gpu *gpu;  /* the GPU that holds gradients and sums; NULL: they are on the host */
    bool mixed;    /* odd ranks use the host even if there is a GPU */
} exchange_run;

typedef struct exchange_entry {
    const exchange_run *run;
    feddc_place place;
    uint32_t workers; /* number of workers; 0: the rank could not join */
    fed_status status;
    fed_error err;
    float *sums;       /* [steps * exchange_size()]; NULL for an aggregator */
    uint32_t complete; /* number of steps whose sums the rank has taken */
    float *state;      /* the residuals; NULL: the codec has none */
    size_t state_size;
    fed_gpu_stream *stream; /* the GPU stream of this rank's thread; NULL without a GPU */
} exchange_entry;

/** Number of values in the gradient. Its tensors have odd sizes. */
size_t exchange_size(void);

/** Compute a rank's gradient of a step into grad, float32[exchange_size()]. */
void exchange_gradient(uint32_t rank, uint32_t step, float *grad);

/** Join, take all steps and leave, as one rank. entry->run and entry->place must be set. */
void exchange_play(void *entry);

/** Run all ranks, each as a thread of this process. */
void exchange_group_play(const exchange_run *run, exchange_entry entry[LINK_GROUP_RANKS]);
void exchange_group_clear(const exchange_run *run, exchange_entry entry[LINK_GROUP_RANKS]);

/** Compare the workers' sum of a step with the exact sum in double. Returns the largest error,
 * relative to the sum of the magnitudes. */
double exchange_error(const exchange_entry *entry, uint32_t step);

#endif
