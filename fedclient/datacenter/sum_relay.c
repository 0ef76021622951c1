/* A state machine for each shard: partial sums go up to one rank, and the sum comes down again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/sum_relay.h"

#include <stdlib.h>
#include <string.h>

enum { PART = 1, SUM = 2 };

typedef enum phase {
    IDLE = 0,
    SUMMING,
    WAITING, /* the partial sum was sent up, and the sum has not come */
    DONE
} phase;

typedef struct relay_shard {
    feddc_turn turn;
    feddc_inputs in;
    uint32_t up, down;
    uint32_t *out, outs;
    feddc_pending pending;

    phase phase;
    const float *own;
    feddc_event kept; /* a sum that is read in the link's buffer, or kind FEDDC_NOTHING */
    uint32_t lent;    /* sends that read job.sum */
} relay_shard;

struct feddc_relay {
    feddc_collective_job job;
    feddc_buffers buffers;
    relay_shard *shard; /* [bucket * shards + part] */
};

static float *sum_of(const feddc_relay *relay, const relay_shard *s) {
    return relay->job.sum + s->turn.shard->offset;
}

static fed_status send_to(feddc_relay *relay, const relay_shard *s, uint32_t to, uint8_t kind,
                          const void *data, size_t len, uint64_t token, fed_error *err) {
    const feddc_coder *coder = kind == PART ? relay->job.push : relay->job.pull;
    feddc_head head = {.kind = kind,
                       .flags = feddc_flags(&relay->job, coder, s->turn.shard, s->turn.plain),
                       .part = s->turn.part,
                       .bucket = s->turn.bucket,
                       .step = s->turn.step};
    return feddc_engine_send(relay->job.engine, to, &head, data, len, token, err);
}

static fed_status new_buffer(feddc_relay *relay, uint32_t uses, feddc_buffer **buffer,
                             fed_error *err) {
    *buffer = feddc_buffers_get(&relay->buffers);
    if (*buffer == NULL) {
        (void)fed_fail(err, FED_ENOMEM, "out of memory for a message of %zu bytes",
                       relay->buffers.size);
        return FED_ENOMEM;
    }
    (*buffer)->uses = uses;
    return FED_OK;
}

static fed_status encode(feddc_relay *relay, const relay_shard *s, feddc_coder *coder,
                         const float *x, feddc_buffer *buffer, fed_error *err) {
    const bool raw = feddc_coder_is_raw(coder, s->turn.shard, s->turn.plain);
    uint64_t begin = feddc_engine_ns();
    FED_TRY(feddc_coder_encode(coder, s->turn.shard, s->turn.plain, x, buffer->data, &buffer->len,
                               err));
    feddc_engine_spent(relay->job.engine, raw ? FEDDC_COPY : FEDDC_ENCODE, s->turn.step,
                       s->turn.bucket, buffer->len, begin);
    return FED_OK;
}

static fed_status send_up(feddc_relay *relay, relay_shard *s, const float *x, fed_error *err) {
    s->phase = WAITING;
    if (feddc_coder_lends(relay->job.push, s->turn.shard, s->turn.plain)) {
        /* count sends that read job.sum; the engine counts those that read the gradient */
        bool lent = x != s->own;
        s->lent += lent;
        return send_to(
            relay, s, s->up, PART, x, s->turn.shard->n * sizeof *x,
            lent ? feddc_token_of_shard((size_t)(s - relay->shard)) : FEDDC_TOKEN_NOTHING, err);
    }
    feddc_buffer *buffer;
    FED_TRY(new_buffer(relay, 1, &buffer, err));
    FED_TRY(encode(relay, s, relay->job.push, x, buffer, err));
    return send_to(relay, s, s->up, PART, buffer->data, buffer->len, feddc_token_of_buffer(buffer),
                   err);
}

static fed_status spread_bytes(feddc_relay *relay, relay_shard *s, feddc_buffer *buffer,
                               fed_error *err) {
    float *sum = sum_of(relay, s);
    const bool raw = feddc_coder_is_raw(relay->job.pull, s->turn.shard, s->turn.plain);
    for (uint32_t k = 0; k < s->outs; k++) {
        FED_TRY(send_to(relay, s, s->out[k], SUM, buffer->data, buffer->len,
                        feddc_token_of_buffer(buffer), err));
    }
    uint64_t begin = feddc_engine_ns();
    FED_TRY(feddc_blame(s->up == relay->job.rank ? s->up : s->down,
                        feddc_coder_decode(relay->job.pull, s->turn.shard, s->turn.plain,
                                           buffer->data, buffer->len, sum, err),
                        err));
    feddc_engine_spent(relay->job.engine, raw ? FEDDC_COPY : FEDDC_DECODE, s->turn.step,
                       s->turn.bucket, buffer->len, begin);
    feddc_buffers_put(&relay->buffers, buffer);
    s->phase = DONE;
    feddc_engine_done(relay->job.engine, s->turn.step, s->turn.bucket, s->turn.part, sum);
    return FED_OK;
}

static fed_status spread_raw(feddc_relay *relay, relay_shard *s, const float *sum, fed_error *err) {
    for (uint32_t k = 0; k < s->outs; k++) {
        s->lent++;
        FED_TRY(send_to(relay, s, s->out[k], SUM, sum, s->turn.shard->n * sizeof *sum,
                        feddc_token_of_shard((size_t)(s - relay->shard)), err));
    }
    s->phase = DONE;
    feddc_engine_done(relay->job.engine, s->turn.step, s->turn.bucket, s->turn.part, sum);
    return FED_OK;
}

static fed_status finish(feddc_relay *relay, relay_shard *s, const float *x, fed_error *err) {
    /* where NICs round, x lies in job.sum, and is rounded in place */
    feddc_round(&relay->job, &s->turn, x, sum_of(relay, s));
    if (feddc_coder_lends(relay->job.pull, s->turn.shard, s->turn.plain)) {
        return spread_raw(relay, s, x, err);
    }
    feddc_buffer *buffer;
    FED_TRY(new_buffer(relay, s->outs + 1, &buffer, err));
    FED_TRY(encode(relay, s, relay->job.pull, x, buffer, err));
    return spread_bytes(relay, s, buffer, err);
}

static fed_status add_inputs(feddc_relay *relay, relay_shard *s, fed_error *err) {
    const float *x = s->own;
    if (s->in.count > 1) {
        x = sum_of(relay, s);
        FED_TRY(feddc_inputs_add(&s->in, &relay->job, &s->turn, s->own,
                                 s->turn.shard->n * sizeof *x, true, sum_of(relay, s), err));
        if (s->in.added < s->in.count) {
            return FED_OK;
        }
    }
    return s->up == relay->job.rank ? finish(relay, s, x, err) : send_up(relay, s, x, err);
}

static fed_status use_raw_sum(feddc_relay *relay, relay_shard *s, const feddc_event *event,
                              fed_error *err) {
    const feddc_shard *shard = s->turn.shard;
    if (event->len != shard->n * sizeof(float)) {
        return fed_fail(err, FED_EFORMAT,
                        "rank %u sent a sum of %zu bytes for a shard of %zu values", event->peer,
                        event->len, shard->n);
    }
    /* no other rank gets the sum from here, so the caller reads it in the link's buffer */
    if (s->outs == 0) {
        s->kept = *event;
        return spread_raw(relay, s, (const float *)(const void *)event->data, err);
    }
    memcpy(sum_of(relay, s), event->data, event->len);
    feddc_engine_release(relay->job.engine, event);
    return spread_raw(relay, s, sum_of(relay, s), err);
}

static fed_status use_sum(feddc_relay *relay, relay_shard *s, const feddc_event *event,
                          fed_error *err) {
    FED_TRY(feddc_check_plain(s->turn.step, s->turn.plain, event, err));
    if (feddc_coder_lends(relay->job.pull, s->turn.shard, s->turn.plain)) {
        return use_raw_sum(relay, s, event, err);
    }
    if (event->len > relay->buffers.size) {
        return fed_fail(err, FED_EFORMAT,
                        "rank %u sent a sum of %zu bytes, but a sum has at most %zu", event->peer,
                        event->len, relay->buffers.size);
    }
    feddc_buffer *buffer;
    FED_TRY(new_buffer(relay, s->outs + 1, &buffer, err));
    memcpy(buffer->data, event->data, event->len);
    buffer->len = event->len;
    feddc_engine_release(relay->job.engine, event);
    return spread_bytes(relay, s, buffer, err);
}

/* Do what the received messages allow. Memory that a send still reads is not written. */
static fed_status advance(feddc_relay *relay, relay_shard *s, fed_error *err) {
    if (s->phase == SUMMING && s->lent == 0) {
        FED_TRY(add_inputs(relay, s, err));
    }
    feddc_event event;
    if (s->phase == WAITING && s->lent == 0 &&
        feddc_pending_take(&s->pending, s->turn.step, &event)) {
        return use_sum(relay, s, &event, err);
    }
    return FED_OK;
}

static relay_shard *shard_at(feddc_relay *relay, uint32_t bucket, uint32_t part) {
    return &relay->shard[(size_t)bucket * relay->job.plan->shards + part];
}

fed_status feddc_relay_begin(void *self, uint32_t step, uint32_t bucket, const float *grad,
                             bool plain, fed_error *err) {
    feddc_relay *relay = self;
    uint32_t count = relay->job.plan->shards;
    size_t first = relay->job.plan->bucket[bucket].offset;
    for (uint32_t k = 0; k < count; k++) {
        relay_shard *s = shard_at(relay, bucket, (k + relay->job.rank) % count);
        if (s->turn.shard->n == 0) {
            feddc_engine_done(relay->job.engine, step, bucket, s->turn.part, NULL);
            continue;
        }
        s->turn.step = step;
        s->turn.plain = plain;
        s->own = grad + (s->turn.shard->offset - first);
        s->in.added = 0;
        s->phase = SUMMING;
        FED_TRY(advance(relay, s, err));
    }
    return FED_OK;
}

fed_status feddc_relay_arrived(void *self, const feddc_event *event, fed_error *err) {
    feddc_relay *relay = self;
    relay_shard *s = shard_at(relay, event->head.bucket, event->head.part);
    if (event->head.kind == PART) {
        FED_TRY(feddc_inputs_keep(&s->in, event, err));
    } else if (event->head.kind == SUM && s->up != relay->job.rank && event->peer == s->down) {
        FED_TRY(feddc_pending_add(&s->pending, event, err));
    } else {
        return fed_fail(err, FED_EFORMAT,
                        "rank %u sent a message of kind %u for bucket %u, shard %u, which is not "
                        "for this rank: give all ranks the same options",
                        event->peer, event->head.kind, event->head.bucket, event->head.part);
    }
    return advance(relay, s, err);
}

fed_status feddc_relay_sent(void *self, uint64_t token, fed_error *err) {
    feddc_relay *relay = self;
    if (feddc_token_is_shard(token)) {
        relay_shard *s = &relay->shard[feddc_token_shard(token)];
        s->lent--;
        return advance(relay, s, err);
    }
    if (token != FEDDC_TOKEN_NOTHING) {
        feddc_buffers_put(&relay->buffers, feddc_token_buffer(token));
    }
    return FED_OK;
}

fed_status feddc_relay_taken(void *self, uint32_t step, uint32_t bucket, fed_error *err) {
    feddc_relay *relay = self;
    (void)step;
    (void)err;
    for (uint32_t k = 0; k < relay->job.plan->shards; k++) {
        relay_shard *s = shard_at(relay, bucket, k);
        if (s->kept.kind == FEDDC_ARRIVED) {
            feddc_engine_release(relay->job.engine, &s->kept);
            s->kept.kind = FEDDC_NOTHING;
        }
        s->phase = IDLE;
    }
    return FED_OK;
}

uint32_t feddc_relay_waits_for(const void *self, uint32_t bucket) {
    const feddc_relay *relay = self;
    for (uint32_t k = 0; k < relay->job.plan->shards; k++) {
        const relay_shard *s = &relay->shard[(size_t)bucket * relay->job.plan->shards + k];
        uint32_t rank = s->phase == SUMMING   ? feddc_inputs_missing(&s->in)
                        : s->phase == WAITING ? s->down
                                              : UINT32_MAX;
        if (rank != UINT32_MAX && rank != relay->job.rank) {
            return rank;
        }
    }
    return UINT32_MAX;
}

void feddc_relay_close(void *self) {
    feddc_relay *relay = self;
    size_t count = (size_t)relay->job.plan->buckets * relay->job.plan->shards;
    for (size_t k = 0; relay->shard != NULL && k < count; k++) {
        feddc_inputs_free(&relay->shard[k].in);
        feddc_pending_free(&relay->shard[k].pending);
        free(relay->shard[k].out);
    }
    feddc_buffers_free(&relay->buffers);
    free(relay->shard);
    free(relay);
}

static fed_status make_shard(feddc_relay *relay, relay_shard *s, const feddc_way *way) {
    const feddc_collective_job *job = &relay->job;
    s->up = way->up;
    s->down = way->down;
    s->outs = way->outs;
    s->out = malloc((way->outs > 0 ? way->outs : 1) * sizeof *s->out);
    if (s->out == NULL) {
        return FED_ENOMEM;
    }
    memcpy(s->out, way->out, way->outs * sizeof *s->out);
    size_t push = feddc_coder_bound(job->push, s->turn.shard);
    size_t pull = feddc_coder_bound(job->pull, s->turn.shard);
    relay->buffers.size = feddc_larger(relay->buffers.size, feddc_larger(push, pull));
    return feddc_inputs_make(&s->in, way->input, way->inputs);
}

static fed_status make_shards(feddc_relay *relay, feddc_find_way *find, uint32_t *room) {
    const feddc_plan *plan = relay->job.plan;
    relay->shard = calloc((size_t)plan->buckets * plan->shards, sizeof *relay->shard);
    if (relay->shard == NULL || room == NULL) {
        return FED_ENOMEM;
    }
    for (uint32_t b = 0; b < plan->buckets; b++) {
        for (uint32_t k = 0; k < plan->shards; k++) {
            relay_shard *s = shard_at(relay, b, k);
            s->turn = (feddc_turn){
                .shard = feddc_plan_shard(plan, b, k), .bucket = b, .part = (uint16_t)k};
            feddc_way way = {.input = room, .out = room + relay->job.ranks};
            find(&relay->job, b, k, &way);
            FED_TRY(make_shard(relay, s, &way));
        }
    }
    return FED_OK;
}

fed_status feddc_relay_open(const feddc_collective_job *job, feddc_find_way *find,
                            feddc_relay **relay, fed_error *err) {
    feddc_relay *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a collective");
    }
    r->job = *job;
    r->buffers.gpu = job->values->gpu;
    uint32_t *room = malloc((size_t)2 * job->ranks * sizeof *room);
    fed_status status = make_shards(r, find, room);
    free(room);
    if (status != FED_OK) {
        feddc_relay_close(r);
        return fed_fail(err, FED_ENOMEM, "out of memory for the sums of %u shards",
                        job->plan->buckets * job->plan->shards);
    }
    *relay = r;
    return FED_OK;
}
