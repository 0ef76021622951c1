/* What a task needs that a device does not know: by word, key, phase, protocol and capability. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <stdio.h>

#include "fed/file.h"
#include "fedserver/rounds/newer.h"
#include "fedserver/task/phases.h"

static const fed_checkin first = {.protocol = 1};
static const fed_checkin second = {.protocol = 2, .capabilities = FED_CAN_PATCH};
static const fed_checkin newest = {
    .protocol = 2,
    .capabilities = FED_CAN_APP | FED_CAN_STAGES | FED_CAN_EDEN | FED_CAN_LAYOUT | FED_CAN_PRIVATE |
                    FED_CAN_PRIVATE_LAYERS | FED_CAN_COUNT | FED_CAN_VARIATES};

static const fedserver_task plain = {
    .wire = {.model = "input 2 | dense 2", .codec_up = "sbc:p=0.01", .optimizer = "sgd"},
    .codec_down = "3lc:s=1"};

static fedserver_unknown in_round(const fedserver_task *task, uint32_t round,
                                  const fed_checkin *checkin) {
    fed_task told = task->wire;
    const fedserver_phase phase = fedserver_phase_of(task, round);
    fedserver_phase_apply(&phase, &told);
    return fedserver_newer(task, round, &told, checkin);
}

static void assert_unknown(const fedserver_task *task, const fed_checkin *checkin, const char *word,
                           const char *key) {
    const fedserver_unknown found = in_round(task, 1, checkin);
    assert_non_null(found.word);
    assert_string_equal(found.word, word);
    assert_string_equal(found.key, key);
    assert_null(in_round(task, 1, &newest).word);
}

FED_TEST(what_the_first_release_knows_is_known) {
    assert_null(in_round(&plain, 1, &first).word);
    assert_false(fedserver_knows_all(&first));
    assert_false(fedserver_knows_all(&second));
    assert_true(fedserver_knows_all(&newest));
}

FED_TEST(the_word_and_its_key_are_named) {
    fedserver_task t = plain;
    snprintf(t.wire.codec_up, sizeof t.wire.codec_up, "topk:p=0.1,values=int8");
    assert_unknown(&t, &second, "values", "codec_up");
    t = plain;
    snprintf(t.codec_down, sizeof t.codec_down, "eden:bits=1");
    assert_unknown(&t, &second, "eden", "codec_down");
    t = plain;
    snprintf(t.wire.optimizer, sizeof t.wire.optimizer, "momentum:m=0.8+mask");
    assert_unknown(&t, &first, "mask", "optimizer");
    assert_null(in_round(&t, 1, &second).word);
    t = plain;
    snprintf(t.wire.model, sizeof t.wire.model, "input 2 | dense 2 | scaffold");
    assert_unknown(&t, &first, "scaffold", "model");
    snprintf(t.wire.model, sizeof t.wire.model, "vector 7");
    assert_unknown(&t, &second, "vector", "model");
    snprintf(t.wire.model, sizeof t.wire.model, "tensors layout 7");
    assert_unknown(&t, &second, "tensors", "model");
    snprintf(t.wire.model, sizeof t.wire.model, "layout 1 tensors 7 values sha256 %064d", 0);
    fed_checkin knows = second;
    knows.capabilities |= FED_CAN_APP;
    assert_unknown(&t, &knows, "layout", "model");
    t = plain;
    snprintf(t.wire.private_layers, sizeof t.wire.private_layers, "head");
    assert_unknown(&t, &second, "private_layers", "keys");
    t = plain;
    snprintf(t.wire.codec_variates, sizeof t.wire.codec_variates, "eden:bits=1,seed=1");
    assert_unknown(&t, &second, "codec_variates", "keys");
    t = plain;
    t.clip_quantile = 0.5F;
    assert_unknown(&t, &second, "quantile", "clip_quantile");
}

/* Devices knew eden before it had p. The p of another codec is no p of eden. */
FED_TEST(a_parameter_that_came_after_its_codec_is_named_with_it) {
    const fed_checkin before = {.protocol = 2, .capabilities = FED_CAN_APP | FED_CAN_STAGES};
    fedserver_task t = plain;
    snprintf(t.wire.codec_up, sizeof t.wire.codec_up, "eden:bits=1,seed=1,p=0.008");
    assert_unknown(&t, &before, "eden:p", "codec_up");
    snprintf(t.wire.codec_up, sizeof t.wire.codec_up, "eden:bits=1,seed=1");
    assert_null(in_round(&t, 1, &before).word);
    snprintf(t.wire.codec_up, sizeof t.wire.codec_up, "randk:p=0.01,seed=1");
    assert_null(in_round(&t, 1, &before).word);
}

FED_TEST(a_stage_counts_only_on_the_way_up) {
    fedserver_task t = plain;
    snprintf(t.codec_down, sizeof t.codec_down, "3lc:s=1+entropy");
    assert_null(in_round(&t, 1, &first).word);
    snprintf(t.wire.codec_up, sizeof t.wire.codec_up, "sbc:p=0.01+entropy");
    assert_unknown(&t, &second, "entropy", "codec_up");
}

FED_TEST(a_part_of_a_word_is_another_word) {
    fedserver_task t = plain;
    snprintf(t.wire.model, sizeof t.wire.model, "input 2 | vectors: dense 2 | scaffolds: dense 2");
    assert_null(in_round(&t, 1, &first).word);
}

/* A device that has an early version downloads the deltas since then. */
FED_TEST(codec_up_is_that_of_the_round_and_codec_down_that_of_all_rounds_so_far) {
    fedserver_task t = plain;
    t.phase_count = 2;
    t.phases[0] = fedserver_phase_at(&plain, 0);
    t.phases[0].round = 5;
    t.phases[1] = t.phases[0];
    t.phases[1].round = 9;
    snprintf(t.phases[0].codec_up, sizeof t.phases[0].codec_up, "randk:p=0.1");
    assert_null(in_round(&t, 4, &second).word);
    assert_string_equal(in_round(&t, 5, &second).word, "randk");
    assert_null(in_round(&t, 9, &second).word);
    snprintf(t.phases[0].codec_down, sizeof t.phases[0].codec_down, "qsgd");
    assert_null(in_round(&t, 4, &second).word);
    assert_string_equal(in_round(&t, 9, &second).word, "qsgd");
    assert_null(in_round(&t, 9, &newest).word);
}

static void assert_described(const char *table, const char *word, const char *capability) {
    char quoted[80];
    snprintf(quoted, sizeof quoted, "`%s`", word);
    const char *at = strstr(table, quoted);
    const char *needed = strcmp(capability, "0") == 0 ? "protocol 2" : capability;
    if (at == NULL || strstr(at, needed) == NULL || strstr(at, needed) > strchr(at, '\n')) {
        fail_msg("docs/protocol.md does not say that \"%s\" needs %s", word, needed);
    }
}

FED_TEST(the_protocols_document_has_each_word_with_what_it_needs) {
    uint8_t *page = NULL;
    size_t len = 0;
    fed_error err = {0};
    assert_fed_ok_err(
        fed_file_read(FED_SOURCE_DIR "/docs/protocol.md", 1 << 20, &page, &len, &err));
    const char *table = strstr((char *)page, "| in | words |");
    assert_non_null(table);
#define FEDSERVER_NEWER(place, word, protocol, capability)                                         \
    assert_described(table, word, #capability);
#include "fedserver/rounds/newer.def"
#undef FEDSERVER_NEWER
    free(page);
}
