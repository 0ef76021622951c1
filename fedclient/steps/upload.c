/* Upload: compress the residual, keep the message until its fate is known, send it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fedclient/steps/steps.h"
#include "fedcodec/envelope.h"

static bool clip(float *values, size_t n) {
    uint32_t clipped = 0; /* an integer, and no branch, so that the loop is vectorised */
    for (size_t i = 0; i < n; i++) {
        float v = values[i] > FEDCLIENT_VALUE_LIMIT ? FEDCLIENT_VALUE_LIMIT : values[i];
        v = v < -FEDCLIENT_VALUE_LIMIT ? -FEDCLIENT_VALUE_LIMIT : v;
        clipped |= v != values[i];
        values[i] = v;
    }
    return clipped != 0;
}

/** Encode either residual, which the codec changes, or values, which are only read. The other one
 * is NULL. The envelope is appended to out. */
static fed_status compress(const fedclient *client, const fedclient_job *job, float *residual,
                           const float *values, fed_writer *out) {
    /* C4 in docs/durability.md: the codec changes a residual, or reads values; never both. */
    assert((residual == NULL) != (values == NULL));
    const fed_layout *layout = fedclient_travels(job);
    uint32_t small = job->assignment.task.small_tensor;
    size_t size = fedcodec_envelope_work_size(job->codec, layout, small);
    fedclient_record work;
    FED_TRY(fedclient_record_room(client->options.platform, size, &work));
    fedcodec codec = job->codec[0];
    codec.unguarded = true;
    fed_status status = fedcodec_envelope_encode(&codec, layout, small, residual, values,
                                                 fedclient_record_payload(&work, &size), out);
    fedclient_record_free(&work);
    return status == FED_OK ? out->status : status;
}

/** Is a copy of the residual needed, which is changed before or while it is encoded? */
static bool encodes_in_place(const fedclient_job *job) {
    const fedcodec *variates = job->codec->variates;
    return fedcodec_needs_residual(job->codec->vtable) ||
           (variates != NULL &&
            (fedcodec_needs_residual(variates->vtable) || fedcodec_stretch(variates) > 1));
}

/** Whatever the codec of the control variates leaves out waits in the residual (fedcodec_stretch).
 * values: a copy, if the codec makes values longer. */
static void shrink_variates(const fedclient_job *job, float *values) {
    const fedcodec *variates = job->codec->variates;
    const double stretch = variates != NULL ? fedcodec_stretch(variates) : 1;
    if (stretch > 1) {
        for (size_t i = job->arch.trained; i < fed_arch_summed(&job->arch); i++) {
            values[i] = (float)((double)values[i] / (stretch * stretch));
        }
    }
}

/** Make the record job->pending: the record's head, the update's head, custom metrics, envelope.
 * *clipped: some values were beyond FEDCLIENT_VALUE_LIMIT. */
static fed_status make_message(const fedclient *client, fedclient_job *job, bool *clipped) {
    size_t n = 0;
    const bool hides = fedclient_is_private(job);
    const bool changes = !hides && (!job->within || encodes_in_place(job));
    FED_TRY(changes ? fedclient_record_own(&job->residual) : FED_OK);
    /* C1 in docs/durability.md: the codec changes a copy, not the stored residual. */
    assert(!changes || !job->residual.lent);
    float *values = fedclient_record_values(&job->residual, &n);
    *clipped = changes && !job->within && clip(values, n);
    shrink_variates(job, values);
    const fedclient_residual_head *trained = &client->slot->residual;
    /* D2 in docs/durability.md: the message names the lease that the device trained for. */
    assert(trained->task == job->assignment.task.id && trained->lease == job->assignment.lease);
    const fed_update update = {.task = trained->task,
                               .round = trained->round,
                               .lease = trained->lease,
                               .samples = hides ? 1 : trained->samples,
                               .loss = hides ? 0 : fedclient_loss_sent(job, trained->loss)};
    const uint8_t head[FEDCLIENT_RECORD_HEAD] = {0};
    fed_writer out;
    fed_writer_growing(&out);
    fed_write_bytes(&out, head, sizeof head);
    fed_update_write(&out, &update);
    /* Metrics are not stored, so those of a training by an earlier process are lost. */
    if (client->own_seq == trained->seq && !hides) {
        fed_own_metrics_write(&out, &client->own);
    }
    fed_status status =
        hides ? fedclient_private_encode(client, job, &update, values, &out)
              : compress(client, job, changes ? values : NULL, changes ? NULL : values, &out);
    fedclient_record_free(&job->residual);
    if (status != FED_OK) {
        fed_writer_free(&out);
        return status;
    }
    job->pending = (fedclient_record){.bytes = out.data, .len = out.len};
    return FED_OK;
}

fed_status fedclient_encode(fedclient *client, fedclient_job *job, fed_error *err) {
    const fedclient_platform *platform = client->options.platform;
    fedclient_slot *slot = client->slot;
    /* C2 in docs/durability.md: no other message is on its way. */
    assert(fedclient_slots_sending(client) == NULL);
    /* C1 in docs/durability.md: no message has been made of this training yet. */
    assert(slot->pending.seq < slot->residual.seq);
    if (job->residual.bytes == NULL) { /* an earlier, interrupted step did the training */
        FED_TRY(
            fedclient_residual_load(platform, slot->number, &slot->residual, &job->residual, err));
    }
    size_t count = 0;
    (void)fedclient_record_values(&job->residual, &count);
    if (count != fedclient_travels(job)->size) {
        return fed_fail(
            err, FED_EFORMAT,
            "the model of task %" PRIu64
            " has %zu values, but it had %zu before: the coordinator changed a running task",
            job->assignment.task.id, fedclient_travels(job)->size, count);
    }
    bool clipped = false;
    FED_TRY(fedclient_participation_take(client, &job->assignment, err));
    fed_status status = make_message(client, job, &clipped);
    if (status != FED_OK) {
        return fed_fail(err, status, "the update can't be compressed: %s", fed_status_text(status));
    }
    slot->pending = (fedclient_pending_head){
        .seq = slot->residual.seq,
        .fate = FEDCLIENT_FATE_UNKNOWN,
        .whole = fedclient_is_private(job) ? fedclient_private_whole(job)
                                           : !fedcodec_has_feedback(job->codec->vtable) && !clipped,
        .pieces = (job->assignment.capabilities & FED_CAN_PIECES) != 0,
        .first = fedclient_slots_first(client)};
    return fedclient_pending_store(platform, slot->number, &slot->pending, &job->pending, err);
}

static fed_status post_whole(fedclient *client, const fedclient_job *job, fedclient_answer *answer,
                             fed_error *err) {
    fedclient_span span = {0};
    span.data = fedclient_record_payload(&job->pending, &span.left);
    const fedclient_body body = fedclient_body_of(&span);
    const fedclient_call call = {
        .base = client->devices, .kind = FED_REQUEST_UPDATE, .body = &body, .answer_limit = 4096};
    return fedclient_exchange(client, &call, answer, err);
}

static fed_status describe(const uint8_t *message, size_t len, fed_piece *piece) {
    fed_reader r;
    fed_update update;
    fed_reader_init(&r, message, len);
    FED_TRY(fed_update_read(&r, &update));
    *piece = (fed_piece){.task = update.task,
                         .round = update.round,
                         .lease = update.lease,
                         .digest = fed_digest_bytes(message, len),
                         .total = len};
    return FED_OK;
}

/** Send len bytes of the message from piece->offset on; with len 0 only ask how many bytes have
 * arrived. If the answer is 202, *there is the number of bytes that have arrived. */
static fed_status post_piece(fedclient *client, const fed_piece *piece, const uint8_t *message,
                             size_t len, uint64_t *there, fedclient_answer *answer,
                             fed_error *err) {
    /* C7 in docs/durability.md: the piece lies within the message. */
    assert(piece->offset < piece->total && len <= piece->total - piece->offset);
    uint8_t head[64];
    fed_writer w;
    fed_writer_fixed(&w, head, sizeof head);
    fed_piece_write(&w, piece);
    fedclient_span span = {
        .data = head, .left = w.len, .more = message + piece->offset, .more_left = len};
    const fedclient_body body = fedclient_body_of(&span);
    const fedclient_call call = {
        .base = client->devices, .kind = FED_REQUEST_PIECE, .body = &body, .answer_limit = 4096};
    FED_TRY(fedclient_exchange(client, &call, answer, err));
    if (answer->status != 202) {
        return FED_OK;
    }
    fed_reader r;
    fed_reader_init(&r, answer->body.data, answer->body.len);
    *there = fed_read_u64(&r);
    return r.status == FED_OK && *there < piece->total
               ? FED_OK
               : fed_fail(err, FED_EFORMAT,
                          "the coordinator's answer to a piece of the update names an impossible "
                          "number of bytes");
}

/** Send piece after piece, until the coordinator answers with another status than 202. */
static fed_status post_pieces(fedclient *client, const fedclient_job *job, fedclient_answer *answer,
                              fed_error *err) {
    enum { ASTRAY_MOST = 3 }; /* wrong answers that are tolerated */
    fed_piece piece;
    size_t total = 0, len = 0;
    const uint8_t *message = fedclient_record_payload(&job->pending, &total);
    const size_t least = total / FED_PIECES + 1, wanted = client->options.piece_bytes;
    const size_t most = wanted > least ? wanted : least;
    FED_TRY(describe(message, total, &piece));
    unsigned astray = 0;
    for (;;) {
        uint64_t there = 0;
        FED_TRY(post_piece(client, &piece, message, len, &there, answer, err));
        if (answer->status != 202) {
            return FED_OK;
        }
        fedclient_answer_free(answer);
        client->failures = there > piece.offset ? 0 : client->failures;
        astray += there != piece.offset + len && len > 0;
        if (astray > ASTRAY_MOST) {
            return fed_fail(err, FED_EFORMAT, "the coordinator keeps losing pieces of the update");
        }
        piece.offset = there;
        len = total - (size_t)there;
        len = len < most ? len : most;
        /* C7, D6 in docs/durability.md: the loop ends, because each piece has bytes that the
         * coordinator lacks. */
        assert(len > 0);
    }
}

/** Must the message be sent in pieces? A small message costs less if it is sent whole. After
 * failures the limit is lower, since the connection may break often. */
static bool needs_pieces(const fedclient *client, size_t total) {
    enum { NEVER_UP_TO = 16384 };
    const fedclient_options *o = &client->options;
    const size_t whole = o->whole_bytes > o->piece_bytes ? o->whole_bytes : o->piece_bytes;
    return client->slot->pending.pieces &&
           (total > whole || (client->failures > 0 && total > NEVER_UP_TO));
}

static fed_status post(fedclient *client, const fedclient_job *job, fedclient_answer *answer,
                       fed_error *err) {
    size_t total = 0;
    /* C2 in docs/durability.md: a message is sent only while its fate is unknown. */
    assert(client->slot->pending.fate == FEDCLIENT_FATE_UNKNOWN);
    (void)fedclient_record_payload(&job->pending, &total);
    if (needs_pieces(client, total)) {
        FED_TRY(post_pieces(client, job, answer, err));
        if (answer->status != 404) {
            return FED_OK;
        }
        fedclient_answer_free(answer); /* 404: the coordinator now runs a release without pieces */
    }
    return post_whole(client, job, answer, err);
}

/** Is nothing owed if this message counts? Of control variates something always is. The device may
 * have restarted since it made the message, and then knows no model: the message itself says it. */
static bool leaves_nothing(const fedclient_job *job) {
    fed_update head;
    fedcodec_envelope envelope = {.variates = false};
    const uint8_t *bytes = NULL;
    size_t len = 0;
    const bool read = fedclient_envelope_of(&job->pending, &head, &bytes, &len) == FED_OK &&
                      fedcodec_envelope_open(&envelope, bytes, len, NULL) == FED_OK;
    return !read || !envelope.variates;
}

/** Store the fate. A message that was refused, or that leaves no residual, is dropped. */
static fed_status store_fate(fedclient *client, fedclient_job *job, fedclient_fate fate,
                             fed_error *err) {
    /* C2 in docs/durability.md: the coordinator's answer decides a message's fate, once. */
    assert(fate != FEDCLIENT_FATE_UNKNOWN);
    assert(client->slot->pending.fate == FEDCLIENT_FATE_UNKNOWN);
    if (fate == FEDCLIENT_FATE_COUNTED && fedclient_settle_now(client, job)) {
        fate = FEDCLIENT_FATE_SETTLED;
    }
    fedclient_slot *slot = client->slot;
    slot->pending.fate = fate;
    if (fate == FEDCLIENT_FATE_REFUSED || (slot->pending.whole && leaves_nothing(job))) {
        job->pending.len = FEDCLIENT_RECORD_HEAD;
    }
    return fedclient_pending_store(client->options.platform, slot->number, &slot->pending,
                                   &job->pending, err);
}

static fed_status judge(const fedclient_answer *answer, fedclient_fate *fate, fed_error *err) {
    switch (answer->status) {
    case 200:
        *fate = FEDCLIENT_FATE_COUNTED;
        return FED_OK;
    case 400:
    case 409:
    case 413:
    case 422:
        *fate = FEDCLIENT_FATE_REFUSED;
        return FED_OK;
    default:
        return fed_fail(err, FED_EFORMAT, "the coordinator answered an update with: %s (%s)",
                        answer->message, answer->error);
    }
}

/** Fill in the event. If only the round is over (409), the device need not wait. Other refusals may
 * last long, so the waits grow. */
static void note(fedclient *client, fedclient_job *job, const fedclient_answer *answer) {
    size_t len = 0;
    const uint8_t *body = fedclient_record_payload(&job->pending, &len);
    fed_reader r;
    fed_update update = {0};
    fed_reader_init(&r, body, len);
    if (fed_update_read(&r, &update) == FED_OK) {
        /* An update of a private task tells no loss. The device knows its own. */
        const fedclient_residual_head *trained = &client->slot->residual;
        const bool known = trained->task == update.task && trained->lease == update.lease;
        job->event->task = update.task;
        job->event->round = update.round;
        job->event->loss = known ? trained->loss : update.loss;
        job->event->samples = update.samples;
    }
    job->event->wait_ms = 0;
    if (answer->status == 200) {
        job->event->outcome = FEDCLIENT_COUNTED;
        return;
    }
    job->event->outcome = FEDCLIENT_REFUSED;
    /* Another device uses this device's identity, too. This many failures make the back-off the
     * longest. */
    enum { CLONED_FAILURES = 16 };
    const bool cloned = strcmp(answer->error, "cloned") == 0;
    if (answer->status != 409 || cloned) {
        client->failures += cloned ? CLONED_FAILURES : 1;
        job->event->wait_ms = fedclient_backoff_ms(client->device, client->failures, 0);
    }
    const fed_log_about about = {.task = update.task, .round = update.round};
    fed_logf_about(
        client->options.log, cloned ? FED_LOG_WARN : FED_LOG_INFO, &about,
        "round %" PRIu32
        ": the coordinator did not count this update, which is kept for the next round: %s (%s)",
        update.round, answer->message, answer->error);
}

fed_status fedclient_let_go(fedclient *client, fed_error *err) {
    FED_TRY(client->known ? FED_OK : fedclient_slot_reload(client, err));
    fedclient_slot *slot = fedclient_slots_sending(client);
    if (slot == NULL) {
        return FED_OK;
    }
    const fedclient_platform *platform = client->options.platform;
    fedclient_record pending = {0};
    FED_TRY(fedclient_pending_load(platform, slot->number, &slot->pending, &pending, err));
    fedclient_pending_head head = slot->pending;
    head.fate = FEDCLIENT_FATE_COUNTED;
    pending.len = head.whole ? FEDCLIENT_RECORD_HEAD : pending.len;
    fed_status status = fedclient_pending_store(platform, slot->number, &head, &pending, err);
    fedclient_record_free(&pending);
    FED_TRY(status);
    slot->pending = head;
    fed_logf(client->options.log, FED_LOG_WARN,
             "the update that was on its way is not sent again, because the coordinator may have "
             "counted it under this device's old key");
    return FED_OK;
}

fed_status fedclient_send(fedclient *client, fedclient_job *job, fed_error *err) {
    fedclient_slot *slot = client->slot;
    if (job->pending.bytes == NULL) { /* the message was made by an earlier step */
        FED_TRY(fedclient_pending_load(client->options.platform, slot->number, &slot->pending,
                                       &job->pending, err));
    }
    fedclient_answer answer = {0};
    fedclient_fate fate = FEDCLIENT_FATE_UNKNOWN;
    fed_status status = post(client, job, &answer, err);
    if (status == FED_OK) {
        status = judge(&answer, &fate, err);
    }
    if (status == FED_OK) {
        note(client, job, &answer);
        status = store_fate(client, job, fate, err);
    }
    fedclient_answer_free(&answer);
    return status;
}
