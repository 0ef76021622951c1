/* Parses updates, chooses their form, and adds them to a round's sum. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/intake.h"

#include <assert.h>

#include "fedserver/task/private_task.h"

#define FEDSERVER_INTAKE(name) extern const fedserver_intake fedserver_intake_##name;
#include "fedserver/rounds/intakes.def"
#undef FEDSERVER_INTAKE

static const fedserver_intake *const intakes[] = {
#define FEDSERVER_INTAKE(name) &fedserver_intake_##name,
#include "fedserver/rounds/intakes.def"
#undef FEDSERVER_INTAKE
};

enum { INTAKES = sizeof intakes / sizeof intakes[0] };

const fedserver_intake *fedserver_intake_of(const fedserver_task *task) {
    size_t k = 0;
    while (k + 1 < INTAKES && !(intakes[k]->takes != NULL && intakes[k]->takes(task))) {
        k++;
    }
    return intakes[k];
}

size_t fedserver_intake_head_bytes(void) {
    uint8_t bytes[64];
    fed_writer w;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_update_write(&w, &(fed_update){.samples = 1});
    assert(w.status == FED_OK);
    return w.len;
}

fed_status fedserver_intake_most_bytes(const fedserver_task *task, const fed_layout *layout,
                                       uint64_t *most, fed_error *err) {
    const fedserver_intake *intake = fedserver_intake_of(task);
    *most = 0;
    for (uint32_t k = 0; k <= task->phase_count; k++) {
        const fedserver_phase phase = fedserver_phase_at(task, k);
        uint64_t bytes;
        fedcodec codec_down; /* parsed only to check that this build has the codec */
        FED_TRY(fedcodec_parse(phase.codec_down, &codec_down, err));
        FED_TRY(intake->most_bytes(task, layout, &phase, &bytes, err));
        *most = bytes > *most ? bytes : *most;
    }
    *most += fedserver_intake_head_bytes() + FED_OWN_BYTES;
    return FED_OK;
}

fed_status fedserver_intake_read(const uint8_t *body, size_t len, fedserver_update *update,
                                 fed_error *why) {
    fed_reader r;
    fed_reader_init(&r, body, len);
    fedserver_update read = {.body = body, .body_len = len};
    if (fed_update_read(&r, &read.head) != FED_OK) {
        return fed_fail(why, FED_EFORMAT, "the body does not start with an update's head");
    }
    if (fed_own_metrics_read(&r, &read.own) != FED_OK) {
        return fed_fail(
            why, FED_EFORMAT,
            "neither custom metrics nor an envelope follow the update's head: " FEDSERVER_OWN_RULE);
    }
    read.envelope_len = fed_reader_left(&r);
    read.envelope = fed_read_bytes(&r, read.envelope_len);
    *update = read;
    return FED_OK;
}

fed_status fedserver_intake_sum(fedserver_training *t) {
    const bool is_private = fedserver_task_is_private(&t->task);
    fed_privacy_fields shape = {0};
    if (is_private) {
        shape = fedserver_private_fields(&t->task, &t->arch.layout);
    }
    return fedserver_sum_init(&t->sum, &t->arch.layout, &t->strategy, is_private ? &shape : NULL);
}

fed_status fedserver_intake_count(fedserver_training *t, uint32_t round,
                                  const fedserver_update *update, int64_t device, fed_error *err) {
    const fed_update *head = &update->head;
    /* D3, S3 in docs/durability.md: the update is of this task, and of no round after `round`. */
    assert(head->task == t->task.wire.id && head->round <= round && head->samples > 0);
    const uint32_t weight = fedserver_round_weight(&t->task.rules, round, head->round);
    const fedserver_contribution contribution = {.device = device,
                                                 .weight = (uint64_t)weight * head->samples,
                                                 .samples = head->samples,
                                                 .round = head->round,
                                                 .loss = head->loss,
                                                 .bytes = update->body_len};
    if (t->sum.size == 0 && fedserver_intake_sum(t) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the sum of a round");
    }
    FED_TRY(t->intake->add(&t->sum, update, &contribution, err));
    fedserver_own_count(&t->own, &update->own, head->samples);
    return FED_OK;
}
