/* The inputs of a sum: the messages of several ranks for one shard, added in a fixed order. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_INPUTS_H
#define FEDDC_INPUTS_H

#include "fedclient/datacenter/collective.h"
#include "fedclient/datacenter/pending.h"

enum { FEDDC_PLAIN = 1 }; /* flag of a message: its step is plain */

/** The ranks whose messages are added for one shard, in the order of the sum. */
typedef struct feddc_inputs {
    uint32_t count;
    uint32_t added;         /* number of ranks added in the current step */
    uint32_t *rank;         /* [count]; this rank's own number stands for its own gradient */
    feddc_pending *pending; /* [count]: messages that were not added yet */
} feddc_inputs;

typedef struct feddc_turn {
    const feddc_shard *shard;
    uint32_t step, bucket;
    uint16_t part;
    bool plain;
} feddc_turn;

/** A message's flags: FEDDC_PLAIN in a plain step; FEDDC_FLOATS if the message is float32, but in a
 * plain step only if no NIC compresses. */
uint8_t feddc_flags(const feddc_collective_job *job, const feddc_coder *coder,
                    const feddc_shard *shard, bool plain);

/** Return whether NICs round the values that are sent in this step. */
static inline bool feddc_nic_rounds(const feddc_collective_job *job, bool plain) {
    return job->nic > 0 && !plain;
}

/** If feddc_nic_rounds: y = x rounded as a NIC does, float32[shard->n]. y may be x. */
void feddc_round(const feddc_collective_job *job, const feddc_turn *turn, const float *x, float *y);

/** Make inputs from these ranks; rank[count] is copied. Errors: FED_ENOMEM */
fed_status feddc_inputs_make(feddc_inputs *in, const uint32_t *rank, uint32_t count) FED_CHECKED;
void feddc_inputs_free(feddc_inputs *in);

/** Keep a message until it can be added. FED_EFORMAT: its sender is none of these ranks. */
fed_status feddc_inputs_keep(feddc_inputs *in, const feddc_event *event,
                             fed_error *err) FED_CHECKED;

/** Return the rank that the sum waits for, or UINT32_MAX for none. */
uint32_t feddc_inputs_missing(const feddc_inputs *in);

/** Add the messages that have arrived and are next in order to sum (values of the shard), advance
 * in->added, and release each. The first message sets the sum.
 * own, own_len: this rank's input, a message of job->push or, with own_plain, values. */
fed_status feddc_inputs_add(feddc_inputs *in, const feddc_collective_job *job,
                            const feddc_turn *turn, const void *own, size_t own_len, bool own_plain,
                            float *sum, fed_error *err) FED_CHECKED;

/** If status is an error, put the rank whose message caused it in front of the error's text.
 * Returns status. */
fed_status feddc_blame(uint32_t rank, fed_status status, fed_error *err) FED_CHECKED;

/** Check that message and step are both plain or both not. Errors: FED_EFORMAT */
fed_status feddc_check_plain(uint32_t step, bool plain, const feddc_event *event,
                             fed_error *err) FED_CHECKED;

#endif
