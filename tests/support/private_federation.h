/* A private task with a helper, its devices and the helper, without a network. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_PRIVATE_FEDERATION_H
#define FED_PRIVATE_FEDERATION_H

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "coordinator_fixture.h"
#include "fed/own_metrics.h"
#include "fedserver/private_helper.h"
#include "fedserver/rounds/openings.h"

/* A test may have more devices, and a task of its own with the same places for keys. */
#ifndef PRIVATE_DEVICES
#define PRIVATE_DEVICES 4
#endif

enum {
    DEVICES = PRIVATE_DEVICES,
    FIELD_BYTES = 1024,
    INPUTS = 100,
    VALUES = 2 * INPUTS + 2,
    HEAD = 28,
    BITS = 6
};

#ifndef TASK
#define TASK                                                                                       \
    "{\"model\": \"input 100 | dense 2\", \"codec_up\": \"ring:b=6\", \"clip\": 1,"                \
    " \"codec_down\": \"float32\", \"cohort\": 4, \"goal\": 4, \"minimum\": 2, \"rounds\": "       \
    "2%s%s%s%s}"
#endif

typedef struct federation {
    test_device device[DEVICES], helper_device;
    fed_assignment work[DEVICES];
    bool rubbish[DEVICES];                /* devices whose seals nobody can open */
    bool ignores[DEVICES];                /* devices that ignore the clip */
    uint32_t level;                       /* what they send in each field; 0: 100 */
    uint8_t fields[DEVICES][FIELD_BYTES]; /* what each device has sent last, before the masks */
    const fed_pem *keys;                  /* [DEVICES]: the devices' own; NULL: new ones */
    bool along; /* all devices have the same update, which the clip shortens */
    float before[VALUES];
    uint8_t secret[FED_POINT_SECRET], key[FED_SEAL_KEY];
    char state[300];
    fedserver_helper *helper;
    fed_error err;
} federation;

/* Queue a task, and enrol devices that take part in it. */
static inline void begin_task(coordinator *c, federation *f, bool masked, const char *more) {
    char hex[2 * FED_SEAL_KEY + 1], task[1024];
    fed_hex(f->key, sizeof f->key, hex);
    snprintf(task, sizeof task, TASK, masked ? ", \"helper\": \"" : "", masked ? hex : "",
             masked ? "\"" : "", more);
    coordinator_task(c, task);
    for (size_t k = 0; k < DEVICES; k++) {
        const fedserver_grant grant = {.ttl_s = 3600};
        f->device[k] =
            f->keys != NULL ? coordinator_enrol_key(c, &grant, &f->keys[k]) : coordinator_enrol(c);
    }
    for (size_t k = 0; k < DEVICES; k++) {
        f->work[k] = device_ask_work(c, &f->device[k]);
        assert_int_equal(f->work[k].action, FED_ACTION_TRAIN);
        assert_int_equal(f->work[k].privacy.helpers, masked);
    }
    assert_int_equal(device_download(c, &f->device[0], &f->work[0].task, -1, 0, f->before, NULL),
                     200);
}

/* Enrol a helper with its seal key. */
static inline test_device enrol_seal_key(coordinator *c, const uint8_t secret[FED_POINT_SECRET]) {
    const fedserver_grant grant = {.role = FEDSERVER_ROLE_HELPER, .ttl_s = 3600};
    fed_pem key;
    fed_error err = {0};
    assert_fed_ok_err(fed_key_of(secret, &key, &err));
    return coordinator_enrol_key(c, &grant, &key);
}

/* A helper that has enrolled with a seal key of its own, which no task names. */
static inline test_device enrol_stranger(coordinator *c) {
    uint8_t secret[FED_POINT_SECRET], key[FED_SEAL_KEY];
    fed_error err = {0};
    assert_fed_ok_err(fed_point_new(secret, key, &err));
    return enrol_seal_key(c, secret);
}

/* A helper with a new key, which is not enrolled yet. */
static inline federation *helper_alone(void) {
    federation *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_fed_ok(fed_point_new(f->secret, f->key, &f->err));
    return f;
}

static inline void enrol_helper(coordinator *c, federation *f) {
    f->helper_device = enrol_seal_key(c, f->secret);
    snprintf(f->state, sizeof f->state, "%s/helper-state.db", c->directory);
    fedserver_helper_options options = {.path = f->state, .least = 2};
    memcpy(options.secret, f->secret, sizeof options.secret);
    assert_fed_ok(fedserver_helper_open(&options, &f->helper, &f->err));
}

/* more: further keys of the task, each behind a comma. */
static inline federation *begin_in(coordinator *c, federation *f, bool masked, const char *more) {
    begin_task(c, f, masked, more);
    enrol_helper(c, f);
    return f;
}

static inline federation *begin_more(coordinator *c, bool masked, const char *more) {
    return begin_in(c, helper_alone(), masked, more);
}

static inline federation *begin(coordinator *c, bool masked) {
    return begin_more(c, masked, "");
}

static inline void end(federation *f) {
    fedserver_helper_close(f->helper);
    remove(f->state);
    free(f);
}

/* The terms, from what the device was told and has downloaded. */
static inline fed_private_terms terms_of(const federation *f, size_t k) {
    const fed_assignment *a = &f->work[k];
    fed_private_terms t = {.task = a->task.id, .round = a->round, .privacy = a->privacy};
    const fed_privacy_fields shape = fed_privacy_shape(&a->privacy, BITS, 1, VALUES);
    fed_writer w;
    fed_writer_growing(&w);
    for (size_t i = 0; i < VALUES; i++) {
        fed_write_f32(&w, f->before[i]);
    }
    fed_sha256(w.data, w.len, t.model);
    fed_writer_free(&w);
    fed_sha256(a->task.model, strlen(a->task.model), t.layout);
    memcpy(t.codec_up, a->task.codec_up, sizeof t.codec_up);
    t.width = shape.width;
    t.fields = shape.fields;
    t.sent = shape.sent;
    fed_privacy_draw(t.task, t.round, t.draw);
    return t;
}

/* Replace the fields of an update: their sum is longer than all updates together may be, unless the
 * test has chosen the level. */
static inline void ignore_clip(const federation *f, size_t k, uint8_t *fields) {
    const uint32_t level = f->level > 0 ? f->level : 100;
    const fed_privacy_fields shape = fed_privacy_shape(&f->work[k].privacy, BITS, 1, VALUES);
    uint32_t *levels = calloc(shape.fields, sizeof *levels);
    assert_non_null(levels);
    assert_true(f->level > 0 || level * sqrt((double)shape.fields) > DEVICES * shape.reach);
    for (size_t i = 0; i < shape.fields; i++) {
        levels[i] = level;
    }
    fed_private_pack(levels, shape.width, 0, fields, shape.fields);
    free(levels);
}

static inline void encode(federation *f, size_t k, fed_writer *w) {
    float x[VALUES];
    const size_t begins = w->len;
    for (size_t i = 0; i < VALUES; i++) {
        x[i] = f->along ? (float)(i % 7) : 0.02F * sinf((float)(k * 37 + i));
    }
    device_encode(&f->work[k], x, 1, w);
    if (f->ignores[k]) {
        ignore_clip(f, k, w->data + begins + HEAD + FED_PRIVATE_HEAD);
    }
    const size_t fields = w->len - begins - HEAD - FED_PRIVATE_HEAD;
    assert_true(fields <= FIELD_BYTES);
    memcpy(f->fields[k], w->data + w->len - fields, fields);
}

/* An update under these terms, signed by device `signer`. */
static inline void encode_masked(federation *f, size_t k, size_t signer,
                                 const fed_private_terms *terms, fed_writer *w) {
    fed_private sealed;
    uint8_t seeds[FED_HELPERS][FED_SEED];
    fed_error err = {0};
    fed_writer plain;
    fed_writer_growing(&plain);
    encode(f, k, &plain);
    uint8_t *fields = plain.data + HEAD + FED_PRIVATE_HEAD;
    assert_fed_ok_err(
        fed_private_seal(terms, f->work[k].lease, &f->device[signer].key, &sealed, seeds, &err));
    if (f->rubbish[k]) {
        sealed.seeds[0].sealed[3] ^= 1;
        assert_fed_ok(fed_private_sign(&sealed, f->work[k].lease, &f->device[signer].key, &err));
    }
    assert_fed_ok(
        fed_private_mask_packed(seeds[0], terms->width, fields, (size_t)fed_private_fields(terms)));
    fed_write_bytes(w, plain.data, HEAD);
    fed_write_u8(w, FED_OWN_ENVELOPE);
    fed_private_write(w, &sealed);
    fed_write_bytes(w, fields, plain.len - HEAD - FED_PRIVATE_HEAD);
    fed_writer_free(&plain);
}

static inline answer post(coordinator *c, const test_device *d, const fed_writer *w) {
    return coordinator_ask(c, d, "POST", "/v1/update", "", w->data, w->len);
}

static inline void send(coordinator *c, federation *f, size_t k, bool masked) {
    fed_writer w;
    fed_writer_growing(&w);
    if (masked) {
        const fed_private_terms terms = terms_of(f, k);
        encode_masked(f, k, k, &terms, &w);
    } else {
        encode(f, k, &w);
    }
    answer a = post(c, &f->device[k], &w);
    answer_expect(&a, 200, "");
    fed_writer_free(&w);
}

static inline answer ask(coordinator *c, const test_device *who) {
    uint8_t body[sizeof(uint32_t)];
    fed_writer w;
    fed_writer_fixed(&w, body, sizeof body);
    fed_write_u32(&w, 0);
    return coordinator_ask(c, who, "POST", "/v1/helper", "", body, w.len);
}

/* What the helper answers now. */
static inline fedserver_reply reply_to(coordinator *c, federation *f) {
    fedserver_inquiry q;
    fedserver_reply reply;
    fed_reader r;
    answer a = ask(c, &f->helper_device);
    assert_int_equal(a.status, 200);
    fed_reader_init(&r, a.body, a.len);
    assert_fed_ok(fedserver_inquiry_read(&r, &q));
    assert_fed_ok(fed_reader_end(&r));
    assert_fed_ok(fedserver_helper_answer(f->helper, &q, &reply, &f->err));
    fedserver_inquiry_free(&q);
    answer_free(&a);
    return reply;
}

/* Send a reply in pieces of this many bytes, until one is refused. Returns the last answer. */
static inline answer open_as(coordinator *c, const test_device *who, const fedserver_reply *reply,
                             size_t most) {
    fed_writer whole, piece;
    answer last = {0};
    fed_writer_growing(&whole);
    fedserver_reply_write(&whole, reply);
    for (size_t at = 0; at < whole.len;) {
        const size_t n = whole.len - at < most ? whole.len - at : most;
        fed_piece head = {.task = reply->task,
                          .round = reply->round,
                          .lease = 1,
                          .digest = fed_digest_bytes(whole.data, whole.len),
                          .total = whole.len,
                          .offset = at};
        answer_free(&last);
        fed_writer_growing(&piece);
        fed_piece_write(&piece, &head);
        fed_write_bytes(&piece, whole.data + at, n);
        last = coordinator_ask(c, who, "POST", "/v1/opening", "", piece.data, piece.len);
        fed_writer_free(&piece);
        at = last.status == 202 ? at + n : whole.len;
    }
    fed_writer_free(&whole);
    return last;
}

static inline answer open_with(coordinator *c, const federation *f, const fedserver_reply *reply,
                               size_t most) {
    return open_as(c, &f->helper_device, reply, most);
}

static inline void open_round(coordinator *c, federation *f, size_t most) {
    fedserver_reply reply = reply_to(c, f);
    assert_string_equal(reply.word, "");
    answer a = open_with(c, f, &reply, most);
    answer_expect(&a, 200, "");
    fedserver_reply_free(&reply);
}

static inline void model_of(coordinator *c, const federation *f, float values[VALUES]) {
    memset(values, 0, VALUES * sizeof *values);
    assert_int_equal(device_download(c, &f->device[0], &f->work[0].task, -1, 1, values, NULL), 200);
}

static inline void refuse(coordinator *c, const federation *f, uint64_t task) {
    const fedserver_training *t = fedserver_rounds_task(&c->server->rounds, task);
    fedserver_reply reply = {.generation = t->task.generation, .task = task, .round = 1};
    strcpy(reply.word, "minimum");
    strcpy(reply.sentence, "a sum of 4 devices is asked for; this helper wants 20 at least");
    answer a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 200, "");
}

/* A log that keeps its lines since a test has cleared them. */
static char said[4000];

static inline void hear(void *user, fed_log_level level, const char *line) {
    (void)user, (void)level;
    const size_t len = strlen(said);
    snprintf(said + len, sizeof said - len, "%s\n", line);
}

static const fed_log heard = {.write = hear, .level = FED_LOG_WARN};

/* All devices send, those of a list rubbish. */
static inline federation *begin_with(coordinator *c, const char *rubbish) {
    federation *f = begin(c, true);
    for (const char *at = rubbish; *at != '\0'; at++) {
        f->rubbish[*at - '0'] = true;
    }
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    said[0] = '\0';
    c->server->log = c->server->rounds.log = &heard;
    return f;
}

/* The devices get the next round's work, and the model that it starts from. */
static inline void next_round(coordinator *c, federation *f) {
    for (size_t k = 0; k < DEVICES; k++) {
        f->work[k] = device_ask_work(c, &f->device[k]);
        assert_int_equal(f->work[k].action, FED_ACTION_TRAIN);
    }
    memset(f->before, 0, sizeof f->before);
    assert_int_equal(device_download(c, &f->device[0], &f->work[0].task, -1, f->work[0].version,
                                     f->before, NULL),
                     200);
}

static inline unsigned times_said(const char *words) {
    unsigned times = 0;
    for (const char *at = said; (at = strstr(at, words)) != NULL; at++) {
        times++;
    }
    said[0] = '\0';
    return times;
}

#endif
