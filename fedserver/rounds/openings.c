/* Makes a helper's question of stored updates, keeps its reply, and takes the masks off the sum. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/openings.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fed/utf8.h"
#include "fedcodec/ring.h"
#include "fedserver/rounds/masked.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/rounds/turns.h"
#include "fedserver/task/private_task.h"

enum { HASHED = 256 /* values that are made bytes at a time */ };

/* SHA-256 of the values as little-endian bytes, once a version. */
static void hash_model(fedserver_training *t) {
    uint8_t bytes[4 * HASHED];
    fed_sha256_sum sum;
    if (t->hashed && t->hashed_version == t->versions.version) {
        return;
    }
    fed_sha256_begin(&sum);
    for (size_t at = 0; at < t->arch.layout.size; at += HASHED) {
        const size_t left = t->arch.layout.size - at;
        fed_writer w;
        fed_writer_fixed(&w, bytes, sizeof bytes);
        for (size_t i = 0; i < HASHED && i < left; i++) {
            fed_write_f32(&w, t->versions.values[at + i]);
        }
        fed_sha256_add(&sum, bytes, w.len);
    }
    fed_sha256_end(&sum, t->model_hash);
    t->hashed = true;
    t->hashed_version = t->versions.version;
}

void fedserver_openings_terms(fedserver_training *t, fed_private_terms *terms) {
    const fedcodec_ring ring = fedserver_masked_ring(&t->task, &t->arch.layout, t->round.number);
    hash_model(t);
    memset(terms, 0, sizeof *terms);
    terms->task = t->task.wire.id;
    terms->round = t->round.number;
    memcpy(terms->model, t->model_hash, sizeof terms->model);
    fed_private_terms_layout(t->task.wire.model, t->task.wire.private_layers, terms->layout);
    memcpy(terms->codec_up, t->task.wire.codec_up, sizeof terms->codec_up);
    terms->width = ring.shape.width;
    terms->fields = ring.shape.fields;
    terms->sent = ring.shape.sent;
    memcpy(terms->draw, ring.draw, sizeof terms->draw);
    terms->privacy = fedserver_privacy_of(&t->task, &t->arch.layout);
}

fed_status fedserver_openings_read(const fedserver_update *update, fed_private *sealed) {
    fed_reader r;
    FED_REQUIRE(update->envelope_len > 0, FED_EFORMAT);
    fed_reader_init(&r, update->envelope + 1, update->envelope_len - 1);
    return fed_private_read(&r, sealed);
}

fed_status fedserver_openings_check(fedserver_training *t,
                                    const uint8_t fingerprint[FED_SHA256_SIZE],
                                    const fedserver_update *update, fed_error *why) {
    fed_private sealed;
    fed_private_terms terms;
    uint8_t digest[FED_SHA256_SIZE], signer[FED_SHA256_SIZE];
    fed_error reason;
    if (!fedserver_task_has_helper(&t->task)) {
        return FED_OK;
    }
    if (fedserver_openings_read(update, &sealed) != FED_OK) {
        return fed_fail(why, FED_EFORMAT, "what this update says to the helper is damaged");
    }
    fedserver_openings_terms(t, &terms);
    fed_private_terms_digest(&terms, digest);
    if (memcmp(digest, sealed.terms, sizeof digest) != 0) {
        return fed_fail(why, FED_EFORMAT,
                        "this update was made under other terms than those of round %u; check in, "
                        "and train its model",
                        t->round.number);
    }
    fed_point_fingerprint(sealed.point, signer);
    if (memcmp(signer, fingerprint, sizeof signer) != 0) {
        return fed_fail(why, FED_EFORMAT, "this update is signed by another device's key");
    }
    if (fed_private_check(&sealed, update->head.lease, &reason) != FED_OK) {
        return fed_fail(why, FED_EFORMAT, "the device's signature to the helper is wrong: %.200s",
                        reason.text);
    }
    return FED_OK;
}

fed_status fedserver_openings_await(fedserver_rounds *rounds, const fedserver_training *t,
                                    bool *awaits, fed_error *err) {
    *awaits = false;
    if (t->round.phase == FEDSERVER_ROUND_CLOSING && t->closing == NULL && t->given == NULL &&
        fedserver_task_has_helper(&t->task)) {
        bool found = false;
        FED_TRY(rounds->store->opening_find(rounds->db, t->task.wire.id, t->round.number, NULL, 0,
                                            &found, err));
        *awaits = !found;
    }
    return FED_OK;
}

int64_t fedserver_openings_ask_ms(const fedserver_training *t, int64_t now_ms) {
    /* The wall clock may have been set back. */
    return t->asking.next_ms > now_ms + t->asking.pause_ms ? now_ms : t->asking.next_ms;
}

void fedserver_openings_wake(fedserver_rounds *rounds, const fedserver_training *t) {
    uint8_t name[FED_SHA256_SIZE];
    if (fedserver_task_helper_name(&t->task, FEDSERVER_HELPERS_KEY, name)) {
        /* It is not in memory before it has asked. */
        const fedserver_device *helper = fedserver_devices_find(&rounds->devices, name);
        if (helper != NULL) {
            fedserver_wake(rounds, (uint64_t)helper->id);
        }
    }
}

void fedserver_openings_pause(fedserver_training *t, int64_t now_ms) {
    fedserver_asking *asking = &t->asking;
    asking->pause_ms = asking->pause_ms == 0 ? FEDSERVER_ASK_FIRST_MS : 2 * asking->pause_ms;
    if (asking->pause_ms > FEDSERVER_ASK_MOST_MS) {
        asking->pause_ms = FEDSERVER_ASK_MOST_MS;
    }
    asking->next_ms = now_ms + asking->pause_ms;
}

fed_status fedserver_openings_refuse(fedserver_rounds *rounds, fedserver_training *t,
                                     const fedserver_reply *reply, int64_t now_ms, fed_error *err) {
    char said[sizeof t->asking.refusal];
    fedserver_openings_pause(t, now_ms);
    snprintf(said, sizeof said, "(%s): %s", reply->word, reply->sentence);
    fed_utf8_clean(said);
    if (strcmp(said, t->asking.refusal) == 0) {
        return FED_OK;
    }
    strcpy(t->asking.refusal, said);
    return rounds->store->opening_refuse(rounds->db, t->task.wire.id, t->round.number, said, err);
}

fed_status fedserver_openings_load(fedserver_rounds *rounds, fedserver_training *t,
                                   fed_error *err) {
    uint8_t name[FED_SHA256_SIZE];
    fedserver_device *spare = NULL;
    t->asking = (fedserver_asking){0};
    FED_TRY(fedserver_openings_await(rounds, t, &t->asking.waits, err));
    if (!t->asking.waits) {
        return FED_OK;
    }
    if (fedserver_task_helper_name(&t->task, FEDSERVER_SPARE_KEY, name)) {
        FED_TRY(fedserver_device_fetch(rounds, name, &spare, err));
    }
    t->asking.spare = spare != NULL && spare->revoked_ms == 0;
    return rounds->store->opening_refused(rounds->db, t->task.wire.id, t->round.number,
                                          t->asking.refusal, sizeof t->asking.refusal, err);
}

void fedserver_openings_report(const fedserver_training *t, char *dst, size_t cap) {
    enum { KEY_DIGITS = 16 };
    char since[16] = "?";
    const time_t seconds = (time_t)(t->round.closing_ms / 1000);
    struct tm utc;
    if (gmtime_r(&seconds, &utc) != NULL) {
        strftime(since, sizeof since, "%H:%M:%S", &utc);
    }
    const int len =
        snprintf(dst, cap, "its helper (key %.*s) to open the sum of %u updates, since %s UTC%s%s",
                 KEY_DIGITS, t->task.helper, t->round.received, since,
                 t->asking.refusal[0] != '\0' ? "; it refuses " : "", t->asking.refusal);
    if (t->asking.spare && len > 0 && (size_t)len < cap) {
        snprintf(dst + len, cap - (size_t)len,
                 "; the helper with its spare key is here: `fedserver reopen --spare %llu` lets it "
                 "go on",
                 (unsigned long long)t->task.wire.id);
    }
}

/* A question that grows. */
typedef struct growing {
    fedserver_inquiry *question;
    size_t room;
} growing;

static fed_status add_device(void *user, const fedserver_update_row *row, const uint8_t *body,
                             size_t len, fed_error *err) {
    growing *g = user;
    fedserver_update update;
    fedserver_inquiry *q = g->question;
    if (q->count == g->room) {
        g->room = g->room > 0 ? 2 * g->room : 64;
        fedserver_sealed *more = realloc(q->devices, g->room * sizeof *more);
        if (more == NULL) {
            return fed_fail(err, FED_ENOMEM, "out of memory for a question to the helper");
        }
        q->devices = more;
    }
    fedserver_sealed *sealed = &q->devices[q->count];
    if (fedserver_intake_read(body, len, &update, err) != FED_OK ||
        fedserver_openings_read(&update, &sealed->private_) != FED_OK) {
        return fed_fail(err, FED_EFORMAT, "a stored update of task %llu is damaged",
                        (unsigned long long)row->task);
    }
    sealed->lease = row->lease;
    q->count++;
    return FED_OK;
}

fed_status fedserver_openings_question(fedserver_rounds *rounds, fedserver_training *t,
                                       fedserver_inquiry *question, fed_error *err) {
    growing g = {.question = question};
    memset(question, 0, sizeof *question);
    fedserver_openings_terms(t, &question->terms);
    question->groups = fedserver_task_groups(&t->task);
    const fed_status status = rounds->store->update_each(rounds->db, t->task.wire.id,
                                                         t->round.number, add_device, &g, err);
    if (status != FED_OK) {
        fedserver_inquiry_free(question);
    }
    return status;
}

fed_status fedserver_openings_same_set(const fedserver_inquiry *q, const fedserver_reply *reply,
                                       fed_error *why) {
    uint8_t set[FED_SHA256_SIZE];
    FED_TRY(fedserver_inquiry_digest(q, set));
    return memcmp(set, reply->set, sizeof set) == 0
               ? FED_OK
               : fed_fail(why, FED_EFORMAT, "this is about another set of updates; ask again");
}

static fed_status fits(const fedserver_inquiry *q, const fedserver_reply *reply, fed_error *why) {
    FED_TRY(fedserver_openings_same_set(q, reply, why));
    const uint64_t fields = fed_private_fields(&q->terms);
    const uint64_t wanted = q->groups * fed_private_packed(q->terms.width, fields);
    return reply->fields_len == wanted
               ? FED_OK
               : fed_fail(why, FED_EFORMAT, "an opening of this round has %llu bytes, not %zu",
                          (unsigned long long)wanted, reply->fields_len);
}

fed_status fedserver_openings_take(fedserver_rounds *rounds, fedserver_training *t,
                                   const fedserver_reply *reply, fed_error *why, fed_error *err) {
    fedserver_inquiry question;
    FED_TRY(fedserver_openings_question(rounds, t, &question, err));
    fed_status status = fits(&question, reply, why);
    fedserver_inquiry_free(&question);
    if (status == FED_OK) {
        status = rounds->store->opening_put(rounds->db, t->task.wire.id, t->round.number,
                                            reply->fields, reply->fields_len, err);
    }
    return status;
}

fed_status fedserver_openings_take_off(fedserver_rounds *rounds, const fedserver_training *t,
                                       const struct fedcodec_ring *ring, uint32_t *sums,
                                       fed_error *err) {
    const uint32_t groups = fedserver_task_groups(&t->task);
    const size_t each = ring->shape.bytes, len = groups * each;
    bool found = false;
    if (!fedserver_task_has_helper(&t->task)) {
        return FED_OK;
    }
    uint8_t *fields = malloc(len);
    uint32_t *masks = malloc(ring->shape.all * sizeof *masks);
    fed_status status = fields != NULL && masks != NULL
                            ? FED_OK
                            : fed_fail(err, FED_ENOMEM, "out of memory for a round's masks");
    if (status == FED_OK) {
        status = rounds->store->opening_find(rounds->db, t->task.wire.id, t->round.number, fields,
                                             len, &found, err);
    }
    if (status == FED_OK && !found) {
        status = fed_fail(err, FED_ENOTFOUND, "the store has no opening of task %llu, round %u",
                          (unsigned long long)t->task.wire.id, t->round.number);
    }
    for (size_t g = 0; g < groups && status == FED_OK; g++) {
        uint32_t *sum = sums + g * ring->shape.all;
        fed_private_unpack(fields + g * each, ring->shape.width, 0, masks, ring->shape.all);
        for (size_t i = 0; i < ring->shape.all; i++) {
            sum[i] -= masks[i];
        }
    }
    free(masks);
    free(fields);
    return status;
}
