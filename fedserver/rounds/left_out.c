/* Leaves updates out of a round that closes, whose seals its helper can't open. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/left_out.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/ledger.h"
#include "fedserver/rounds/openings.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/rounds/shut_out.h"
#include "fedserver/rounds/stored.h"
#include "fedserver/rounds/training.h"

static fed_status check_numbers(const fedserver_inquiry *q, const fedserver_reply *reply,
                                fed_error *why) {
    for (size_t k = 0; k < reply->unopened_count; k++) {
        if (reply->unopened[k] >= q->count) {
            return fed_fail(why, FED_ERANGE, "there is no update %u in a set of %zu",
                            reply->unopened[k], q->count);
        }
    }
    return FED_OK;
}

/* The devices that the log names. */
typedef struct names {
    char text[300];
    size_t len, more;
} names;

static void add_name(names *n, const char *name) {
    const size_t room = sizeof n->text - n->len, need = strlen(name) + 3;
    if (need >= room || n->more > 0) {
        n->more++;
        return;
    }
    n->len += (size_t)snprintf(n->text + n->len, room, "%s%s", n->len > 0 ? ", " : "", name);
}

/* The device gets no slot of this round, nor of later ones before its next start. */
static fed_status shut_out_one(fedserver_rounds *rounds, fedserver_training *t,
                               const fedserver_sealed *sealed, int64_t now_ms, names *n,
                               fed_error *err) {
    fedserver_device *device = NULL;
    uint8_t fingerprint[FED_SHA256_SIZE];
    char name[FEDSERVER_DEVICE_SAID] = "?", reason[96];
    fed_point_fingerprint(sealed->private_.point, fingerprint);
    FED_TRY(fedserver_device_fetch(rounds, fingerprint, &device, err));
    if (device != NULL) {
        FED_TRY(fedserver_device_report(rounds, device->id, name, err));
        snprintf(reason, sizeof reason, FEDSERVER_SHUT_OUT "%u", t->round.number);
        FED_TRY(fedserver_shut_out_note(t, device->id, err));
        FED_TRY(fedserver_leases_decline(rounds, t, device, reason, now_ms, err));
    }
    add_name(n, name);
    return FED_OK;
}

static fed_status leave_out(fedserver_rounds *rounds, fedserver_training *t,
                            const fedserver_inquiry *q, const fedserver_reply *reply,
                            int64_t now_ms, fed_error *err) {
    const uint32_t number = t->round.number, received = t->round.received;
    names n = {.len = 0};
    for (size_t k = 0; k < reply->unopened_count; k++) {
        const fedserver_sealed *sealed = &q->devices[reply->unopened[k]];
        FED_TRY(shut_out_one(rounds, t, sealed, now_ms, &n, err));
        FED_TRY(rounds->store->update_remove(rounds->db, t->task.wire.id, sealed->lease, err));
    }
    for (size_t k = 0; k < reply->unopened_count; k++) {
        fedserver_round_step(&t->task.rules, &t->round, FEDSERVER_ON_LEFT_OUT, now_ms);
    }
    char more[40] = "";
    if (n.more > 0) {
        snprintf(more, sizeof more, " and %zu more", n.more);
    }
    fedserver_training_say(rounds, t, number, FED_LOG_ERROR,
                           "%zu of %u updates are lost, since the helper can't open their seals: "
                           "%s%s; if you do not trust a device, exclude it with `fedserver revoke`",
                           reply->unopened_count, received, n.text, more);
    return FED_OK;
}

/* Add up what is left, as a restart does. */
static fed_status add_again(fedserver_rounds *rounds, fedserver_training *t, fed_error *err) {
    fedserver_sum_clear(&t->sum);
    t->own = (fedserver_own_table){.count = 0};
    FED_TRY(fedserver_stored_load(rounds, t, t->round.number, err));
    /* S4 in docs/durability.md: the sum has exactly the stored updates. */
    assert(t->sum.updates == t->round.received);
    return FED_OK;
}

fed_status fedserver_left_out_take(fedserver_rounds *rounds, fedserver_training *t,
                                   const fedserver_reply *reply, int64_t now_ms, fed_error *why,
                                   fed_error *err) {
    fedserver_inquiry q;
    fedserver_round before = t->round;
    /* S5 in docs/durability.md: the set is settled, and nothing of it was made yet. */
    assert(before.phase == FEDSERVER_ROUND_CLOSING && t->closing == NULL);
    FED_TRY(fedserver_openings_question(rounds, t, &q, err));
    fed_status status = fedserver_openings_same_set(&q, reply, why);
    if (status == FED_OK) {
        status = check_numbers(&q, reply, why);
    }
    if (status == FED_OK) {
        status = leave_out(rounds, t, &q, reply, now_ms, err);
    }
    fedserver_inquiry_free(&q);
    FED_TRY(status);
    FED_TRY(add_again(rounds, t, err));
    t->asking = (fedserver_asking){0};
    FED_TRY(rounds->store->opening_refuse(rounds->db, t->task.wire.id, before.number, "", err));
    FED_TRY(fedserver_ledger_left_out(t, err));
    if (t->round.phase == FEDSERVER_ROUND_CLOSING) {
        fedserver_openings_wake(rounds, t);
        return fedserver_round_save(rounds, t, err);
    }
    before.received = t->round.received;
    return fedserver_training_reopened(rounds, t, &before, now_ms, err);
}
