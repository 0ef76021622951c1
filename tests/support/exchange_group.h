/* A worker group that exchanges gradients which rank and step alone decide: any sum can be checked.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXCHANGE_GROUP_H
#define EXCHANGE_GROUP_H

#include "feddc/exchange.h"
#include "link_group.h"

/** What a worker group is to do. */
typedef struct exchange_run {
    const feddc_link_vtable *link;
    const char *collective, *codec, *pull, *nic;
    uint32_t size, steps;
    uint32_t plain_every; /* each so manieth step is plain; 0: none */
    bool rough;    /* a step is put in before the last one is taken, its tensors in any order */
    bool poisoned; /* rank 1's gradient of step 1 holds a NaN */
    fed_gpu *gpu;  /* where gradients and sums are; NULL: on the host */
    bool mixed;    /* odd ranks are on the host all the same */
} exchange_run;

/** What a rank got. */
typedef struct exchange_entry {
    const exchange_run *run;
    feddc_place place;
    uint32_t workers; /* 0: it could not join */
    fed_status status;
    fed_error err;
    float *sums;       /* [steps * exchange_size()]; NULL for an aggregator */
    uint32_t complete; /* steps that it has taken */
    float *state;      /* the residuals; NULL: none */
    size_t state_size;
    fed_gpu_stream *stream; /* with a GPU, of this rank's thread */
} exchange_entry;

/** Values of the gradient. Its tensors are odd. */
size_t exchange_size(void);

/** float32[exchange_size()] */
void exchange_gradient(uint32_t rank, uint32_t step, float *grad);

/** Join, take all steps, and leave: one rank's part. seat->run and seat->place are filled in. */
void exchange_play(void *entry);

/** All ranks of a run, as threads of this process. */
void exchange_group_play(const exchange_run *run, exchange_entry entry[LINK_GROUP_RANKS]);
void exchange_group_clear(const exchange_run *run, exchange_entry entry[LINK_GROUP_RANKS]);

/** The largest error of the workers' sum of a step, against a sum in double; divided by the sum of
 * magnitudes. */
double exchange_error(const exchange_entry *entry, uint32_t step);

#endif
