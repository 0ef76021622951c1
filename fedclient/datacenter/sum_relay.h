/* A relay: ranks pass partial sums up to one that has the whole, and the sum down again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_SUM_RELAY_H
#define FEDDC_SUM_RELAY_H

#include "fedclient/datacenter/buffers.h"
#include "fedclient/datacenter/inputs.h"

/*
 * For each shard each rank adds its inputs, its own gradient among them, and sends the partial sum
 * up, coded once. The last one codes the whole sum as a pull, uses its own bytes decoded, and sends
 * them down; the others hand on the bytes that they got. So all ranks have the same bits. A rank
 * codes each value once a step. Ring and tree are ways through this machine.
 */

/** The way of one shard through one rank. */
typedef struct feddc_way {
    uint32_t *input; /* the ranks whose parts are added, in this order; the own rank among them */
    uint32_t inputs;
    uint32_t up;   /* who gets the partial sum; the own rank: this one has the whole */
    uint32_t down; /* who sends the sum, where up is another rank */
    uint32_t *out; /* whom to send the sum */
    uint32_t outs;
} feddc_way;

/** Writes the way; input and out have room for `ranks` each. */
typedef void feddc_find_way(const feddc_collective_job *job, uint32_t bucket, uint32_t part,
                            feddc_way *way);

typedef struct feddc_relay feddc_relay;

fed_status feddc_relay_open(const feddc_collective_job *job, feddc_find_way *find,
                            feddc_relay **relay, fed_error *err) FED_CHECKED;

/* The members of a collective's vtable. */
fed_status feddc_relay_begin(void *self, uint32_t step, uint32_t bucket, const float *grad,
                             bool plain, fed_error *err) FED_CHECKED;
fed_status feddc_relay_arrived(void *self, const feddc_event *event, fed_error *err) FED_CHECKED;
fed_status feddc_relay_sent(void *self, uint64_t token, fed_error *err) FED_CHECKED;
fed_status feddc_relay_taken(void *self, uint32_t step, uint32_t bucket,
                             fed_error *err) FED_CHECKED;
uint32_t feddc_relay_waits_for(const void *self, uint32_t bucket);
void feddc_relay_close(void *self);

#endif
