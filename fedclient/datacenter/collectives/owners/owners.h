/* What the two files of "owners" share: a shard's state at its owner, and at the others. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_OWNERS_H
#define FEDDC_OWNERS_H

#include "fedclient/datacenter/buffers.h"
#include "fedclient/datacenter/collective.h"
#include "fedclient/datacenter/inputs.h"

enum { OWNERS_PUSH = 1, OWNERS_PULL = 2 }; /* kinds of messages */
enum { OWNERS_MISSED = 2 }; /* a flag beside FEDDC_PLAIN: the sum is without your push */

/** What an owner does with a shard. */
typedef enum owners_phase {
    OWNERS_IDLE = 0, /* the next step may begin */
    OWNERS_SUMMING,  /* pushes are added */
    OWNERS_SPREAD    /* the sum is complete, and its memory is still read */
} owners_phase;

typedef struct owners_shard {
    const feddc_shard *shard;
    uint32_t bucket, owner;
    uint16_t part;
    bool plain;
    uint32_t step;         /* the current one, or the last one */
    feddc_pending pending; /* pushes or pulls of later steps */

    /* At the others */
    bool waits;           /* for the pull of `step` */
    feddc_event pull;     /* a raw pull, whose data the caller reads; else kind NOTHING */
    feddc_buffer *pushed; /* with backup workers: the push, until it is known to be counted */

    /* At the owner */
    owners_phase phase;
    bool known;       /* step is that of a sum, and the next sum's is step + 1 */
    const float *own; /* this rank's gradient of own_step, not added yet; else NULL */
    uint32_t own_step;
    bool own_plain;
    bool untaken;      /* the caller has not taken the sum yet */
    feddc_event *push; /* [workers]: of `step`, not added yet; kind NOTHING: none */
    bool *counted;     /* [workers]: added to the sum of `step` */
    uint32_t added;    /* how many of them */
    uint32_t lent;     /* pulls that are still read out of the sum */
} owners_shard;

typedef struct owners {
    feddc_collective_job job;
    owners_shard *shard; /* [bucket * shards + part] */
    feddc_buffers buffers;
} owners;

static inline owners_shard *owners_shard_at(owners *o, uint32_t bucket, uint32_t part) {
    return &o->shard[(size_t)bucket * o->job.plan->shards + part];
}

/* owners_sum.c: the owner's side */

/** This rank's own gradient of a shard that it owns. */
fed_status owners_own_gradient(owners *o, owners_shard *s, uint32_t step, const float *x,
                               bool plain, fed_error *err) FED_CHECKED;
fed_status owners_on_push(owners *o, owners_shard *s, const feddc_event *event,
                          fed_error *err) FED_CHECKED;

/** The sum of a shard that this rank owns goes on, once its caller has taken it (`untaken`) or a
 * pull that was read out of it has left (`lent`). */
fed_status owners_advance(owners *o, owners_shard *s, fed_error *err) FED_CHECKED;

/** The first worker whose push is missing; UINT32_MAX: none is waited for. */
uint32_t owners_missing(const owners *o, const owners_shard *s);

#endif
