/* Shared by owners.c and owners_sum.c: the state of a shard at its owner and at other workers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_OWNERS_H
#define FEDDC_OWNERS_H

#include "fedclient/datacenter/buffers.h"
#include "fedclient/datacenter/collective.h"
#include "fedclient/datacenter/inputs.h"

enum { OWNERS_PUSH = 1, OWNERS_PULL = 2 };
enum { OWNERS_MISSED = 2 }; /* a flag beside FEDDC_PLAIN: the sum lacks the receiver's push */

typedef enum owners_phase {
    OWNERS_IDLE = 0, /* the next step may begin */
    OWNERS_SUMMING,
    OWNERS_SPREAD /* the sum is complete; sends or the caller still read the sum's memory */
} owners_phase;

typedef struct owners_shard {
    const feddc_shard *shard;
    uint32_t bucket, owner;
    uint16_t part;
    bool plain;
    uint8_t how;           /* FEDDC_HOW flags of `step` */
    uint32_t step;         /* the step of the current sum, or of the last one while idle */
    feddc_pending pending; /* pushes or pulls of steps that have not begun here */

    /* At ranks that do not own the shard: */
    bool waits;
    /* the link's event of a sum that the caller reads in place; else kind FEDDC_NOTHING */
    feddc_event pull;
    /* with backup workers: this rank's coded push, kept until the sum has arrived */
    feddc_buffer *pushed;

    /* At the owner: */
    owners_phase phase;
    bool known;       /* `step` is valid */
    const float *own; /* this rank's gradient of own_step, not added yet; else NULL */
    uint32_t own_step;
    bool own_plain;
    uint8_t own_how;
    bool untaken;
    feddc_event *push; /* [workers]: pushes of `step` not added yet; kind FEDDC_NOTHING: none */
    bool *counted;     /* [workers]: the worker's gradient is in the sum of `step` */
    uint32_t added;
    uint32_t lent; /* sends that still read the sum's memory */
} owners_shard;

typedef struct owners {
    feddc_collective_job job;
    owners_shard *shard; /* [bucket * shards + part] */
    feddc_buffers buffers;
} owners;

static inline owners_shard *owners_shard_at(owners *o, uint32_t bucket, uint32_t part) {
    return &o->shard[(size_t)bucket * o->job.plan->shards + part];
}

/** Take this rank's own gradient of a shard that this rank owns, and do what is possible now. */
fed_status owners_own_gradient(owners *o, owners_shard *s, uint32_t step, const float *x,
                               bool plain, uint8_t how, fed_error *err) FED_CHECKED;
fed_status owners_on_push(owners *o, owners_shard *s, const feddc_event *event,
                          fed_error *err) FED_CHECKED;

/** Do what is possible now for a shard that this rank owns: add pushes, send the sum, begin the
 * next step. The next step begins once the caller has taken the sum (`untaken`) and no send reads
 * the sum (`lent`). */
fed_status owners_advance(owners *o, owners_shard *s, fed_error *err) FED_CHECKED;

/** Return whether this message of the shard's step changes a model: the ranks have an optimizer at
 * the owners, and the step is one of gradients. */
static inline bool owners_changes(const owners *o, const owners_shard *s) {
    return o->job.owner != NULL && !s->plain;
}

/** If the step taught the replica, keep these values, float32[s->shard->n]. */
void owners_learn_replica(owners *o, const owners_shard *s, const float *values);

/** The first worker whose gradient is missing, or UINT32_MAX if the shard waits for none. */
uint32_t owners_missing(const owners *o, const owners_shard *s);

#endif
