/* The inputs of a sum: what ranks send of a shard, added in a fixed order. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_INPUTS_H
#define FEDDC_INPUTS_H

#include "fedclient/datacenter/collective.h"
#include "fedclient/datacenter/pending.h"

enum { FEDDC_PLAIN = 1 }; /* the flag of a message of a plain step */

/** The ranks whose messages are added, in the order of the sum, for one shard. */
typedef struct feddc_inputs {
    uint32_t count;
    uint32_t added;         /* of the current step: the first so many */
    uint32_t *rank;         /* [count]; the own rank stands for what this rank adds itself */
    feddc_pending *pending; /* [count]: messages that were not added yet */
} feddc_inputs;

/** A shard in the step that it is at. */
typedef struct feddc_turn {
    const feddc_shard *shard;
    uint32_t step, bucket;
    uint16_t part;
    bool plain;
} feddc_turn;

/** The flags of a message: FEDDC_PLAIN in a plain step; FEDDC_FLOATS if it is float32, but in a
 * plain step only if no NIC would round it. */
uint8_t feddc_flags(const feddc_collective_job *job, const feddc_coder *coder,
                    const feddc_shard *shard, bool plain);

/** Does a NIC round what is sent in this step? */
static inline bool feddc_nic_rounds(const feddc_collective_job *job, bool plain) {
    return job->nic > 0 && !plain;
}

/** If it does: y = x, float32 of the shard, rounded. They may be the same memory. For who sends
 * what it uses itself, or sends it to several. */
void feddc_round(const feddc_collective_job *job, const feddc_turn *turn, const float *x, float *y);

/** Copies rank[count]. Errors: FED_ENOMEM */
fed_status feddc_inputs_make(feddc_inputs *in, const uint32_t *rank, uint32_t count) FED_CHECKED;
void feddc_inputs_free(feddc_inputs *in);

/** Keep a message until its turn. FED_EFORMAT: it is of no rank of these. */
fed_status feddc_inputs_keep(feddc_inputs *in, const feddc_event *event,
                             fed_error *err) FED_CHECKED;

/** The rank that the sum waits for; UINT32_MAX: none. */
uint32_t feddc_inputs_missing(const feddc_inputs *in);

/**
 * Add what is there and whose turn it is to sum, values of the shard: in->added goes up. The first
 * one sets it. Each message is released once it is added.
 *
 * own, own_len  what this rank adds: a message of job->push, or with
 * own_plain     values of the shard, whatever the codec
 */
fed_status feddc_inputs_add(feddc_inputs *in, const feddc_collective_job *job,
                            const feddc_turn *turn, const void *own, size_t own_len, bool own_plain,
                            float *sum, fed_error *err) FED_CHECKED;

/** Returns status; if it is an error, its sentence now begins with the rank whose message it is
 * about. */
fed_status feddc_blame(uint32_t rank, fed_status status, fed_error *err) FED_CHECKED;

/** FED_EFORMAT: the message is plain and this rank's step is not, or the other way round. */
fed_status feddc_check_plain(uint32_t step, bool plain, const feddc_event *event,
                             fed_error *err) FED_CHECKED;

#endif
