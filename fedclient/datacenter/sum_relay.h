/* A relay, for the collectives ring and tree: partial sums go up to a last rank, which completes
 * the sum, and the sum comes down again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_SUM_RELAY_H
#define FEDDC_SUM_RELAY_H

#include "fedclient/datacenter/buffers.h"
#include "fedclient/datacenter/inputs.h"

/* A rank adds a shard's inputs, its own gradient among them, encodes the partial sum once and sends
 * it up. The last rank encodes the whole sum as a pull, sends the message down, and decodes it for
 * itself. The other ranks pass the same message on. So all ranks get the same bits, and a rank
 * encodes each value once a step. Ring and tree only differ in each shard's way. */

/** The way of one shard through one rank. */
typedef struct feddc_way {
    /* ranks whose partial sums are added, in this order; this rank stands for its own gradient */
    uint32_t *input;
    uint32_t inputs;
    /* the rank that gets the partial sum; if it is this rank, this rank completes the sum */
    uint32_t up;
    uint32_t down; /* the rank that sends the sum, if up is another rank */
    uint32_t *out; /* the ranks to send the sum to */
    uint32_t outs;
} feddc_way;

/** A callback that fills in a shard's way. input and out have room for job->ranks numbers each. */
typedef void feddc_find_way(const feddc_collective_job *job, uint32_t bucket, uint32_t part,
                            feddc_way *way);

typedef struct feddc_relay feddc_relay;

fed_status feddc_relay_open(const feddc_collective_job *job, feddc_find_way *find,
                            feddc_relay **relay, fed_error *err) FED_CHECKED;

fed_status feddc_relay_begin(void *self, uint32_t step, uint32_t bucket, const float *grad,
                             bool plain, fed_error *err) FED_CHECKED;
fed_status feddc_relay_arrived(void *self, const feddc_event *event, fed_error *err) FED_CHECKED;
fed_status feddc_relay_sent(void *self, uint64_t token, fed_error *err) FED_CHECKED;
fed_status feddc_relay_taken(void *self, uint32_t step, uint32_t bucket,
                             fed_error *err) FED_CHECKED;
uint32_t feddc_relay_waits_for(const void *self, uint32_t bucket);
void feddc_relay_close(void *self);

#endif
