/* The owner's side of "owners": add the pushes of a shard, and send the sum to all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedclient/datacenter/collectives/owners/owners.h"

enum { CHUNK = 4096 }; /* values summed at a time, so that they stay in the first-level cache */

static bool sums_in_order(const owners *o, const owners_shard *s) {
    /* with backup workers, pushes that are not plain are added as they arrive */
    return s->plain || o->job.late == 0;
}

static const void *pushed_by(const owners *o, const owners_shard *s, uint32_t r) {
    if (r == o->job.rank) {
        return s->own != NULL && s->own_step == s->step ? s->own : NULL;
    }
    return s->push[r].kind == FEDDC_ARRIVED ? s->push[r].data : NULL;
}

/* Return the next worker, from `from` on, whose push may be added now, or job.workers if there is
 * none. */
static uint32_t next_to_add(const owners *o, const owners_shard *s, uint32_t from) {
    if (sums_in_order(o, s)) {
        bool there = from < o->job.workers && pushed_by(o, s, from) != NULL;
        return there ? from : o->job.workers;
    }
    while (from < o->job.workers && (s->counted[from] || pushed_by(o, s, from) == NULL)) {
        from++;
    }
    return from;
}

static void counted(owners *o, owners_shard *s, uint32_t r) {
    s->counted[r] = true;
    s->added++;
    if (r == o->job.rank) {
        s->own = NULL;
    } else {
        feddc_engine_release(o->job.engine, &s->push[r]);
        s->push[r].kind = FEDDC_NOTHING;
    }
}

/* Add the raw pushes of ranks from .. to - 1: n values, beginning at value `at`. */
static fed_status add_chunk(const owners *o, const owners_shard *s, uint32_t from, uint32_t to,
                            size_t at, size_t n) {
    const feddc_values *v = o->job.values;
    float *sum = o->job.sum + s->shard->offset + at;
    for (uint32_t r = from; r < to; r++) {
        const float *x = (const float *)pushed_by(o, s, r) + at;
        const bool set = s->added == 0 && r == from;
        const bool here = r == o->job.rank || v->gpu == NULL;
        FED_TRY(here ? feddc_values_use(v, set, sum, x, n)
                     : feddc_values_use_bytes(v, set, sum, (const uint8_t *)x, n));
    }
    return FED_OK;
}

/* Add one chunk of each raw push, then the next chunk. A GPU adds whole pushes. */
static fed_status add_chunks(const owners *o, const owners_shard *s, uint32_t from, uint32_t to) {
    const size_t all = s->shard->n, chunk = o->job.values->gpu != NULL ? all : CHUNK;
    for (size_t at = 0; at < all; at += chunk) {
        FED_TRY(add_chunk(o, s, from, to, at, all - at < chunk ? all - at : chunk));
    }
    return feddc_values_wait(o->job.values);
}

static fed_status add_raw(owners *o, owners_shard *s, uint32_t from, uint32_t to, fed_error *err) {
    uint64_t begin = feddc_engine_ns();
    FED_TRY(feddc_values_explain(o->job.values, add_chunks(o, s, from, to), err));
    feddc_engine_spent(o->job.engine, FEDDC_SUM, s->step, s->bucket, s->shard->n * sizeof(float),
                       begin);
    for (uint32_t r = from; r < to; r++) {
        counted(o, s, r);
    }
    return FED_OK;
}

static fed_status add_own(const owners *o, const owners_shard *s, bool first, float *sum) {
    FED_TRY(feddc_values_use(o->job.values, first, sum, s->own, s->shard->n));
    return feddc_values_wait(o->job.values);
}

static fed_status add_coded(owners *o, owners_shard *s, uint32_t r, fed_error *err) {
    float *sum = o->job.sum + s->shard->offset;
    const feddc_event *event = &s->push[r];
    bool first = s->added == 0, own = r == o->job.rank;
    uint64_t begin = feddc_engine_ns();
    if (own) {
        FED_TRY(feddc_values_explain(o->job.values, add_own(o, s, first, sum), err));
    } else if (first) {
        FED_TRY(feddc_blame(
            r,
            feddc_coder_decode(o->job.push, s->shard, s->plain, event->data, event->len, sum, err),
            err));
    } else {
        FED_TRY(feddc_blame(
            r, feddc_coder_add(o->job.push, s->shard, s->plain, event->data, event->len, sum, err),
            err));
    }
    feddc_engine_spent(o->job.engine, own ? FEDDC_SUM : FEDDC_DECODE, s->step, s->bucket,
                       own ? s->shard->n * sizeof *sum : event->len, begin);
    counted(o, s, r);
    return FED_OK;
}

/* Return how many gradients a sum needs. A plain sum needs all workers' gradients, because no
 * residual would keep a late gradient. */
static uint32_t enough_for(const owners *o, const owners_shard *s) {
    return s->plain ? o->job.workers : o->job.workers - o->job.late;
}

static fed_status add_pushes(owners *o, owners_shard *s, fed_error *err) {
    uint32_t enough = enough_for(o, s);
    uint32_t r = next_to_add(o, s, sums_in_order(o, s) ? s->added : 0);
    while (s->added < enough && r < o->job.workers) {
        uint32_t to = r + 1;
        if (feddc_coder_is_raw(o->job.push, s->shard, s->plain)) {
            while (to < o->job.workers && to - r < enough - s->added &&
                   next_to_add(o, s, to) == to) {
                to++;
            }
            FED_TRY(add_raw(o, s, r, to, err));
        } else {
            FED_TRY(add_coded(o, s, r, err));
        }
        r = next_to_add(o, s, to);
    }
    return FED_OK;
}

static fed_status send_to_all(owners *o, owners_shard *s, const void *data, size_t len,
                              uint64_t token, fed_error *err) {
    feddc_head head = {.kind = OWNERS_PULL, .part = s->part, .bucket = s->bucket, .step = s->step};
    const unsigned all = feddc_flags(&o->job, o->job.pull, s->shard, s->plain);
    for (uint32_t k = 1; k < o->job.ranks; k++) {
        uint32_t to = (o->job.rank + k) % o->job.ranks;
        if (to >= o->job.workers) {
            continue;
        }
        head.flags = (uint8_t)(all | (s->counted[to] ? 0u : OWNERS_MISSED));
        FED_TRY(feddc_engine_send(o->job.engine, to, &head, data, len, token, err));
    }
    return FED_OK;
}

void owners_learn_replica(owners *o, const owners_shard *s, const float *values) {
    if (s->how == (FEDDC_TAUGHT | FEDDC_REPLICA << FEDDC_WHAT_SHIFT)) {
        memcpy(o->job.replica + s->shard->offset, values, s->shard->n * sizeof *values);
    }
}

/* The optimizer at the owner: its weights follow the sum. Raw values travel as they are. */
static fed_status step_weights(owners *o, owners_shard *s, fed_error *err) {
    const feddc_owner *owner = o->job.owner;
    float *sum = o->job.sum + s->shard->offset;
    const uint64_t begin = feddc_engine_ns();
    FED_TRY(owner->step(owner->user, s->step, s->shard->offset, sum, s->shard->n, s->added, err));
    feddc_engine_spent(o->job.engine, FEDDC_SUM, s->step, s->bucket, s->shard->n * sizeof *sum,
                       begin);
    if (feddc_coder_is_raw(o->job.pull, s->shard, false)) {
        memcpy(sum, owner->weights + s->shard->offset, s->shard->n * sizeof *sum);
    }
    return FED_OK;
}

/* With an optimizer at the owner: make of the sum what the ranks take. */
static fed_status use_owner(owners *o, owners_shard *s, fed_error *err) {
    const feddc_owner *owner = o->job.owner;
    float *sum = o->job.sum + s->shard->offset;
    const uint32_t what = (uint32_t)s->how >> FEDDC_WHAT_SHIFT;
    if (owner == NULL) {
        return s->how == 0 ? FED_OK
                           : fed_fail(err, FED_EFORMAT,
                                      "a rank has an optimizer at the owners, and this rank has "
                                      "none: give all ranks the same options");
    }
    if (!s->plain) {
        return step_weights(o, s, err);
    }
    if ((s->how & FEDDC_ASKED) != 0) {
        owner->tell(owner->user, what, s->shard->offset, sum, s->shard->n);
    } else if ((s->how & FEDDC_TAUGHT) != 0 && what == FEDDC_REPLICA) {
        owners_learn_replica(o, s, sum);
    } else if ((s->how & FEDDC_TAUGHT) != 0) {
        owner->learn(owner->user, what, s->shard->offset, sum, s->shard->n);
    }
    return FED_OK;
}

/* Send the change of the model. The owner follows its own message, as the others do. */
static fed_status encode_change(owners *o, owners_shard *s, feddc_buffer *buffer, fed_error *err) {
    const size_t at = s->shard->offset;
    float *weights = o->job.owner->weights + at, *replica = o->job.replica + at;
    uint64_t begin = feddc_engine_ns();
    FED_TRY(feddc_coder_encode_change(o->job.pull, s->shard, weights, replica, o->job.sum + at,
                                      buffer->data, &buffer->len, err));
    feddc_engine_spent(o->job.engine, FEDDC_ENCODE, s->step, s->bucket, buffer->len, begin);
    begin = feddc_engine_ns();
    FED_TRY(feddc_coder_follow(o->job.pull, s->shard, buffer->data, buffer->len, replica, err));
    if (!feddc_coder_has_residual(o->job.pull)) {
        memcpy(weights, replica, s->shard->n * sizeof *weights);
    }
    feddc_engine_spent(o->job.engine, FEDDC_DECODE, s->step, s->bucket, buffer->len, begin);
    return FED_OK;
}

/* The owner decodes its own message too, so that its sum has the same bits as the others'. */
static fed_status encode_sum(owners *o, owners_shard *s, feddc_buffer *buffer, fed_error *err) {
    float *sum = o->job.sum + s->shard->offset;
    uint64_t begin = feddc_engine_ns();
    FED_TRY(feddc_coder_encode(o->job.pull, s->shard, false, sum, buffer->data, &buffer->len, err));
    feddc_engine_spent(o->job.engine, FEDDC_ENCODE, s->step, s->bucket, buffer->len, begin);
    begin = feddc_engine_ns();
    FED_TRY(feddc_coder_decode(o->job.pull, s->shard, false, buffer->data, buffer->len, sum, err));
    feddc_engine_spent(o->job.engine, FEDDC_DECODE, s->step, s->bucket, buffer->len, begin);
    return FED_OK;
}

static fed_status copy_sum(owners *o, owners_shard *s, feddc_buffer *buffer, fed_error *err) {
    const uint64_t begin = feddc_engine_ns();
    FED_TRY(feddc_coder_encode(o->job.pull, s->shard, s->plain, o->job.sum + s->shard->offset,
                               buffer->data, &buffer->len, err));
    feddc_engine_spent(o->job.engine, FEDDC_COPY, s->step, s->bucket, buffer->len, begin);
    return FED_OK;
}

/* Send the sum in a buffer of its own, so that no send reads the sum's memory. */
static fed_status spread_message(owners *o, owners_shard *s, bool raw, uint32_t receivers,
                                 fed_error *err) {
    feddc_buffer *buffer = feddc_buffers_get(&o->buffers);
    if (buffer == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a message of %zu bytes",
                        o->buffers.size);
    }
    FED_TRY(raw                    ? copy_sum(o, s, buffer, err)
            : owners_changes(o, s) ? encode_change(o, s, buffer, err)
                                   : encode_sum(o, s, buffer, err));
    buffer->uses = receivers;
    if (receivers == 0) {
        feddc_buffers_put(&o->buffers, buffer);
        return FED_OK;
    }
    return send_to_all(o, s, buffer->data, buffer->len, feddc_token_of_buffer(buffer), err);
}

static fed_status spread(owners *o, owners_shard *s, fed_error *err) {
    float *sum = o->job.sum + s->shard->offset;
    bool worker = o->job.rank < o->job.workers;
    uint32_t receivers = o->job.workers - worker;
    s->phase = OWNERS_SPREAD;
    const feddc_turn turn = {
        .shard = s->shard, .step = s->step, .bucket = s->bucket, .plain = s->plain};
    feddc_round(&o->job, &turn, sum, sum);
    FED_TRY(use_owner(o, s, err));
    s->untaken = worker;
    bool raw = feddc_coder_is_raw(o->job.pull, s->shard, s->plain);
    if (feddc_coder_lends(o->job.pull, s->shard, s->plain) && o->job.late == 0) {
        s->lent = receivers;
        FED_TRY(send_to_all(o, s, sum, s->shard->n * sizeof *sum,
                            feddc_token_of_shard((size_t)(s - o->shard)), err));
    } else {
        /* also with backup workers, because a late one may leave its message unread for long */
        FED_TRY(spread_message(o, s, raw, receivers, err));
    }
    feddc_engine_done(o->job.engine, s->step, s->bucket, s->part,
                      owners_changes(o, s) && !raw ? o->job.replica + s->shard->offset : sum);
    return FED_OK;
}

static fed_status accept(owners *o, owners_shard *s, const feddc_event *event, fed_error *err) {
    FED_TRY(feddc_check_plain(s->step, s->plain, event, err));
    if ((event->head.flags & FEDDC_HOW) != s->how) {
        return fed_fail(err, FED_EFORMAT,
                        "rank %u asks or teaches the owners something else than others in step %u: "
                        "give all ranks the same options",
                        event->peer, s->step);
    }
    if (s->push[event->peer].kind == FEDDC_ARRIVED || s->counted[event->peer]) {
        return fed_fail(err, FED_EFORMAT, "rank %u pushed shard %u of bucket %u twice in step %u",
                        event->peer, s->part, s->bucket, s->step);
    }
    bool raw = feddc_coder_is_raw(o->job.push, s->shard, s->plain);
    if (raw && event->len != s->shard->n * sizeof(float)) {
        return fed_fail(
            err, FED_EFORMAT,
            "rank %u pushed %zu bytes for a shard of %zu values: all workers need the same release",
            event->peer, event->len, s->shard->n);
    }
    s->push[event->peer] = *event;
    return FED_OK;
}

/* Find the step of the next sum, and whether it is plain. false: no gradient of it has arrived. */
static bool next_step(const owners_shard *s, uint32_t *step, bool *plain, uint8_t *how) {
    for (size_t k = 0; k < s->pending.count; k++) {
        const feddc_head *head = &s->pending.event[k].head;
        if (!s->known || head->step == s->step + 1) {
            *step = head->step;
            *plain = (head->flags & FEDDC_PLAIN) != 0;
            *how = head->flags & FEDDC_HOW;
            return true;
        }
    }
    if (s->own != NULL) {
        *step = s->own_step;
        *plain = s->own_plain;
        *how = s->own_how;
    }
    return s->own != NULL;
}

static fed_status start(owners *o, owners_shard *s, uint32_t step, bool plain, uint8_t how,
                        fed_error *err) {
    s->phase = OWNERS_SUMMING;
    s->how = how;
    s->known = true;
    s->step = step;
    s->plain = plain;
    s->added = 0;
    memset(s->counted, 0, o->job.workers * sizeof *s->counted);
    feddc_event event;
    while (feddc_pending_take(&s->pending, step, &event)) {
        FED_TRY(accept(o, s, &event, err));
    }
    return FED_OK;
}

fed_status owners_advance(owners *o, owners_shard *s, fed_error *err) {
    uint32_t step;
    bool plain;
    uint8_t how = 0;
    for (;;) {
        if (s->phase == OWNERS_IDLE) {
            if (!next_step(s, &step, &plain, &how)) {
                return FED_OK;
            }
            FED_TRY(start(o, s, step, plain, how, err));
        }
        if (s->phase == OWNERS_SUMMING) {
            FED_TRY(add_pushes(o, s, err));
            if (s->added < enough_for(o, s)) {
                return FED_OK;
            }
            FED_TRY(spread(o, s, err));
        }
        if (s->lent > 0 || s->untaken) {
            return FED_OK;
        }
        s->phase = OWNERS_IDLE;
    }
}

fed_status owners_own_gradient(owners *o, owners_shard *s, uint32_t step, const float *x,
                               bool plain, uint8_t how, fed_error *err) {
    if (s->phase == OWNERS_SUMMING && s->plain != plain) {
        return fed_fail(
            err, FED_EFORMAT,
            "other ranks send step %u %s, and this rank does not: give all ranks the same rule",
            step, s->plain ? "as float32" : "coded");
    }
    if (s->phase == OWNERS_SUMMING && s->how != how) {
        return fed_fail(err, FED_EFORMAT,
                        "other ranks ask or teach the owners something else in step %u: give all "
                        "ranks the same options",
                        step);
    }
    s->own = x;
    s->own_step = step;
    s->own_plain = plain;
    s->own_how = how;
    return owners_advance(o, s, err);
}

uint32_t owners_missing(const owners *o, const owners_shard *s) {
    if (s->owner != o->job.rank || s->phase != OWNERS_SUMMING) {
        return UINT32_MAX;
    }
    uint32_t r = 0;
    while (r < o->job.workers && (s->counted[r] || pushed_by(o, s, r) != NULL)) {
        r++;
    }
    return r < o->job.workers ? r : UINT32_MAX;
}

fed_status owners_on_push(owners *o, owners_shard *s, const feddc_event *event, fed_error *err) {
    uint32_t step = event->head.step;
    if (s->known && (step < s->step || (step == s->step && s->phase != OWNERS_SUMMING))) {
        if (o->job.late == 0) {
            return fed_fail(err, FED_EFORMAT, "rank %u pushed step %u again; the sum is at step %u",
                            event->peer, step, s->step);
        }
        /* too late for the sum: the worker adds this push to its residual again */
        feddc_engine_release(o->job.engine, event);
        return FED_OK;
    }
    if (s->phase == OWNERS_SUMMING && step == s->step) {
        FED_TRY(accept(o, s, event, err));
    } else {
        FED_TRY(feddc_pending_add(&s->pending, event, err));
    }
    return owners_advance(o, s, err);
}
