/* A worker group that exchanges gradients, which depend on rank and step only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXCHANGE_GROUP_H
#define EXCHANGE_GROUP_H

#include "feddc/exchange.h"
#include "link_group.h"

typedef struct exchange_run {
    const feddc_link_vtable *link;
    const char *collective, *codec, *pull, *nic;
    uint32_t size, steps;
    uint32_t plain_every; /* every plain_every-th step is uncompressed; 0: none */
    /* Put and take tensors in random order, with two steps under way. */
    bool rough;
    bool poisoned; /* rank 1 puts a NaN into step 1 */
    bool huge;     /* all put values into step 1 whose sum is infinite */
    fed_gpu *gpu;  /* the GPU for gradients and sums; NULL: the host */
    bool mixed;
} exchange_run;

typedef struct exchange_entry {
    const exchange_run *run;
    feddc_place place;
    uint32_t workers; /* number of workers; 0: joining failed */
    fed_status status;
    fed_error err;
    float *sums;       /* [steps * exchange_size()]; NULL for an aggregator */
    uint32_t complete; /* number of completed steps */
    float *state;      /* the exchange's saved state; NULL: not saved */
    size_t state_size;
    fed_gpu_stream *stream;
} exchange_entry;

/** Number of values in a gradient. */
size_t exchange_size(void);

/** Compute a rank's gradient of a step into grad, float32[exchange_size()]. */
void exchange_gradient(uint32_t rank, uint32_t step, float *grad);

/** Join, take all steps and leave, as one rank. entry->run and entry->place must be set. */
void exchange_play(void *entry);

/** Run all ranks, each as a thread of this process. */
void exchange_group_play(const exchange_run *run, exchange_entry entry[LINK_GROUP_RANKS]);
void exchange_group_clear(const exchange_run *run, exchange_entry entry[LINK_GROUP_RANKS]);

/** Compare a step's sum with the sum computed in double. Returns the largest error, relative to the
 * sum of the magnitudes. */
double exchange_error(const exchange_entry *entry, uint32_t step);

#endif
