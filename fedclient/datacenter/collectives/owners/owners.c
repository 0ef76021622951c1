/* Collective owners: each shard of a bucket has an owner. Workers push their gradient of the shard
 * to its owner. The owner sums the pushes and sends the sum to all. Owners are the workers, or
 * ranks beside them ("aggregators"). One aggregator is the star topology of the papers in
 * docs/datacenter.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/collectives/owners/owners.h"

#include <stdlib.h>

static uint32_t aggregators(const double *param) {
    return (uint32_t)param[0];
}

static uint32_t shards(const double *param, uint32_t ranks) {
    return aggregators(param) > 0 ? aggregators(param) : ranks;
}

static uint8_t push_flags(const owners *o, const owners_shard *s) {
    return feddc_flags(&o->job, o->job.push, s->shard, s->plain) | s->how;
}

static fed_status push_message(owners *o, owners_shard *s, bool raw, const float *x,
                               fed_error *err) {
    feddc_buffer *buffer = feddc_buffers_get(&o->buffers);
    if (buffer == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a message of %zu bytes",
                        o->buffers.size);
    }
    uint64_t begin = feddc_engine_ns();
    FED_TRY(
        feddc_coder_encode(o->job.push, s->shard, s->plain, x, buffer->data, &buffer->len, err));
    feddc_engine_spent(o->job.engine, raw ? FEDDC_COPY : FEDDC_ENCODE, s->step, s->bucket,
                       buffer->len, begin);
    s->pushed = o->job.late > 0 && !raw ? buffer : NULL;
    buffer->uses = 1 + (s->pushed != NULL);
    feddc_head head = {.kind = OWNERS_PUSH,
                       .flags = push_flags(o, s),
                       .part = s->part,
                       .bucket = s->bucket,
                       .step = s->step};
    return feddc_engine_send(o->job.engine, s->owner, &head, buffer->data, buffer->len,
                             feddc_token_of_buffer(buffer), err);
}

static fed_status push(owners *o, owners_shard *s, const float *x, fed_error *err) {
    if (!feddc_coder_lends(o->job.push, s->shard, s->plain)) {
        return push_message(o, s, feddc_coder_is_raw(o->job.push, s->shard, s->plain), x, err);
    }
    feddc_head head = {.kind = OWNERS_PUSH,
                       .flags = push_flags(o, s),
                       .part = s->part,
                       .bucket = s->bucket,
                       .step = s->step};
    return feddc_engine_send(o->job.engine, s->owner, &head, x, s->shard->n * sizeof *x,
                             FEDDC_TOKEN_NOTHING, err);
}

/* The sum has arrived. If it lacks this rank's push, add the push to the residual again. */
static fed_status settle_push(owners *o, owners_shard *s, bool missed, fed_error *err) {
    feddc_buffer *pushed = s->pushed;
    s->pushed = NULL;
    if (pushed == NULL) {
        return FED_OK;
    }
    if (missed) {
        FED_TRY(feddc_coder_take_back(o->job.push, s->shard, pushed->data, pushed->len, err));
    }
    feddc_buffers_put(&o->buffers, pushed);
    return FED_OK;
}

/* The caller reads a raw sum in the link's buffer, so the event is kept until the sum is taken. */
static fed_status use_raw_pull(owners *o, owners_shard *s, const feddc_event *event,
                               fed_error *err) {
    if (event->len != s->shard->n * sizeof(float)) {
        return fed_fail(err, FED_EFORMAT,
                        "rank %u sent a sum of %zu bytes for a shard of %zu values: all workers "
                        "need the same release",
                        event->peer, event->len, s->shard->n);
    }
    s->pull = *event;
    owners_learn_replica(o, s, (const float *)(const void *)event->data);
    feddc_engine_done(o->job.engine, s->step, s->bucket, s->part,
                      (const float *)(const void *)event->data);
    return FED_OK;
}

static fed_status decode_pull(owners *o, owners_shard *s, const feddc_event *event, float *values,
                              fed_error *err) {
    const fed_status status =
        owners_changes(o, s)
            ? feddc_coder_follow(o->job.pull, s->shard, event->data, event->len, values, err)
            : feddc_coder_decode(o->job.pull, s->shard, s->plain, event->data, event->len, values,
                                 err);
    return feddc_blame(event->peer, status, err);
}

static fed_status use_pull(owners *o, owners_shard *s, const feddc_event *event, fed_error *err) {
    float *values = (owners_changes(o, s) ? o->job.replica : o->job.sum) + s->shard->offset;
    FED_TRY(settle_push(o, s, (event->head.flags & OWNERS_MISSED) != 0, err));
    FED_TRY(feddc_check_plain(s->step, s->plain, event, err));
    s->waits = false;
    if (feddc_coder_lends(o->job.pull, s->shard, s->plain)) {
        return use_raw_pull(o, s, event, err);
    }
    const bool raw = feddc_coder_is_raw(o->job.pull, s->shard, s->plain);
    uint64_t begin = feddc_engine_ns();
    FED_TRY(decode_pull(o, s, event, values, err));
    feddc_engine_spent(o->job.engine, raw ? FEDDC_COPY : FEDDC_DECODE, s->step, s->bucket,
                       event->len, begin);
    feddc_engine_release(o->job.engine, event);
    feddc_engine_done(o->job.engine, s->step, s->bucket, s->part, values);
    return FED_OK;
}

/* Push a shard. With backup workers the shard's sum may have arrived already. */
static fed_status begin_shard(owners *o, owners_shard *s, uint32_t step, const float *x, bool plain,
                              uint8_t how, fed_error *err) {
    s->step = step;
    s->plain = plain;
    s->how = how;
    s->waits = true;
    FED_TRY(push(o, s, x, err));
    feddc_event event;
    return feddc_pending_take(&s->pending, step, &event) ? use_pull(o, s, &event, err) : FED_OK;
}

static fed_status begin(void *self, uint32_t step, uint32_t bucket, const float *grad, bool plain,
                        fed_error *err) {
    owners *o = self;
    uint32_t count = o->job.plan->shards;
    size_t first = o->job.plan->bucket[bucket].offset;
    const uint8_t how = feddc_engine_how(o->job.engine, step, bucket);
    for (uint32_t k = 0; k < count; k++) {
        /* The first shard depends on the rank. Otherwise all would push to one owner at once. */
        owners_shard *s = owners_shard_at(o, bucket, (k + o->job.rank + 1) % count);
        const float *x = grad + (s->shard->offset - first);
        if (s->shard->n == 0) {
            feddc_engine_done(o->job.engine, step, bucket, s->part, NULL);
        } else if (s->owner == o->job.rank) {
            FED_TRY(owners_own_gradient(o, s, step, x, plain, how, err));
        } else {
            FED_TRY(begin_shard(o, s, step, x, plain, how, err));
        }
    }
    return FED_OK;
}

static fed_status on_pull(owners *o, owners_shard *s, const feddc_event *event, fed_error *err) {
    if (event->peer != s->owner) {
        return fed_fail(err, FED_EFORMAT, "rank %u sent a sum that rank %u owns", event->peer,
                        s->owner);
    }
    return s->waits && s->step == event->head.step ? use_pull(o, s, event, err)
                                                   : feddc_pending_add(&s->pending, event, err);
}

static fed_status arrived(void *self, const feddc_event *event, fed_error *err) {
    owners *o = self;
    owners_shard *s = owners_shard_at(o, event->head.bucket, event->head.part);
    bool mine = s->owner == o->job.rank;
    if (event->head.kind == OWNERS_PUSH && mine && event->peer < o->job.workers) {
        return owners_on_push(o, s, event, err);
    }
    if (event->head.kind == OWNERS_PULL && !mine && o->job.rank < o->job.workers) {
        return on_pull(o, s, event, err);
    }
    return fed_fail(err, FED_EFORMAT,
                    "rank %u sent a message of kind %u for bucket %u, shard %u, which is not for "
                    "this rank: give all ranks the same options",
                    event->peer, event->head.kind, event->head.bucket, event->head.part);
}

static fed_status sent(void *self, uint64_t token, fed_error *err) {
    owners *o = self;
    if (feddc_token_is_shard(token)) {
        owners_shard *s = &o->shard[feddc_token_shard(token)];
        s->lent--;
        return owners_advance(o, s, err);
    }
    if (token != FEDDC_TOKEN_NOTHING) {
        feddc_buffers_put(&o->buffers, feddc_token_buffer(token));
    }
    return FED_OK;
}

static fed_status taken(void *self, uint32_t step, uint32_t bucket, fed_error *err) {
    owners *o = self;
    (void)step;
    for (uint32_t k = 0; k < o->job.plan->shards; k++) {
        owners_shard *s = owners_shard_at(o, bucket, k);
        if (s->shard->n > 0 && s->owner == o->job.rank) {
            s->untaken = false;
            FED_TRY(owners_advance(o, s, err));
        } else if (s->pull.kind == FEDDC_ARRIVED) {
            feddc_engine_release(o->job.engine, &s->pull);
            s->pull.kind = FEDDC_NOTHING;
        }
    }
    return FED_OK;
}

static uint32_t waits_for(const void *self, uint32_t bucket) {
    const owners *o = self;
    for (uint32_t k = 0; k < o->job.plan->shards; k++) {
        const owners_shard *s = &o->shard[(size_t)bucket * o->job.plan->shards + k];
        uint32_t rank = s->waits ? s->owner : owners_missing(o, s);
        if (rank != UINT32_MAX && rank != o->job.rank) {
            return rank;
        }
    }
    return UINT32_MAX;
}

static void close_owners(void *self) {
    owners *o = self;
    size_t count = (size_t)o->job.plan->buckets * o->job.plan->shards;
    for (size_t k = 0; o->shard != NULL && k < count; k++) {
        feddc_pending_free(&o->shard[k].pending);
        free(o->shard[k].push);
        free(o->shard[k].counted);
    }
    feddc_buffers_free(&o->buffers);
    free(o->shard);
    free(o);
}

static fed_status make_shard(owners *o, owners_shard *s, uint32_t bucket, uint32_t part) {
    s->shard = feddc_plan_shard(o->job.plan, bucket, part);
    s->bucket = bucket;
    s->part = (uint16_t)part;
    s->owner = part + (o->job.ranks > o->job.workers ? o->job.workers : 0);
    o->buffers.size =
        feddc_larger(o->buffers.size, feddc_larger(feddc_coder_bound(o->job.push, s->shard),
                                                   feddc_coder_bound(o->job.pull, s->shard)));
    if (o->job.late > 0) { /* with backup workers, raw sums are copied into buffers too */
        o->buffers.size = feddc_larger(o->buffers.size, s->shard->n * sizeof(float));
    }
    if (s->owner != o->job.rank) {
        return FED_OK;
    }
    s->push = calloc(o->job.workers, sizeof *s->push);
    s->counted = calloc(o->job.workers, sizeof *s->counted);
    return s->push != NULL && s->counted != NULL ? FED_OK : FED_ENOMEM;
}

static fed_status make_shards(owners *o) {
    const feddc_plan *plan = o->job.plan;
    o->shard = calloc((size_t)plan->buckets * plan->shards, sizeof *o->shard);
    if (o->shard == NULL) {
        return FED_ENOMEM;
    }
    for (uint32_t b = 0; b < plan->buckets; b++) {
        for (uint32_t k = 0; k < plan->shards; k++) {
            FED_TRY(make_shard(o, owners_shard_at(o, b, k), b, k));
        }
    }
    return FED_OK;
}

static fed_status open_owners(const feddc_collective_job *job, void **self, fed_error *err) {
    owners *o = calloc(1, sizeof *o);
    if (o == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the owners of shards");
    }
    o->job = *job;
    o->buffers.gpu = job->values->gpu;
    if (make_shards(o) != FED_OK) {
        close_owners(o);
        return fed_fail(err, FED_ENOMEM, "out of memory for the owners of %u shards",
                        job->plan->buckets * job->plan->shards);
    }
    *self = o;
    return FED_OK;
}

static const fed_param params[] = {
    {.key = "aggregators",
     .preset = 0,
     .low = 0,
     .high = FEDDC_RANKS - 1,
     .help = "ranks beside the workers that own all shards; 0: the workers own them",
     .whole = true},
    {.key = NULL}};

const feddc_collective_vtable feddc_collective_owners = {
    .id = 1,
    .name = "owners",
    .about = "each shard has an owner that sums it; owners:aggregators=1 is a star",
    .params = params,
    .owned = true,
    .aggregators = aggregators,
    .shards = shards,
    .open = open_owners,
    .begin = begin,
    .arrived = arrived,
    .sent = sent,
    .taken = taken,
    .waits_for = waits_for,
    .close = close_owners,
};
