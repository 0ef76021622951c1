/* A fake coordinator of one device in the test's own process, and a flash chip that loses power. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_fake.h"

#include <inttypes.h>

#include "fed/layout_reference.h"
#include "fed/version.h"
#include "fed_test.h"
#include "fedcodec/envelope.h"
#include "fedcodec/ring.h"

static void answer_error(int code, const char *word, int *status, fed_writer *answer) {
    *status = code;
    fed_write_printf(answer, "{\"error\": \"%s\", \"message\": \"the fake said \\\"%s\\\"\"}", word,
                     word);
}

static size_t read_body(const fedclient_body *body, uint8_t **data) {
    *data = malloc(body->size + 1);
    assert_non_null(*data);
    size_t at = 0;
    while (at < body->size) {
        size_t len = 0;
        assert_fed_ok(body->read(body->user, *data + at, body->size - at, &len));
        at += len;
    }
    return at;
}

/** Return why an enrolment is refused, or NULL. */
static const char *enrol_refusal(const fed_fake *fake, const char *token, const uint8_t *key) {
    const bool known = memcmp(key, fake->key, sizeof fake->key) == 0;
    if (token == NULL) {
        return known ? NULL : "device_unknown";
    }
    return strncmp(token, "good-token", 10) != 0  ? "token_unknown"
           : strcmp(token, fake->used_token) == 0 ? "token_used"
           : known                                ? "key_known"
                                                  : NULL;
}

static void enrol(fed_fake *fake, const fedclient_request *request, const char *csr, int *status,
                  fed_writer *answer) {
    const bool renews = strstr(request->url, "/v1/renew") != NULL;
    fed_error err = {0};
    fed_pem cert;
    uint8_t key[FED_SHA256_SIZE];
    assert_fed_ok_err(fed_csr_key_fingerprint(csr, key, &err));
    const char *refusal = enrol_refusal(fake, request->bearer, key);
    if (refusal != NULL) {
        int code = strcmp(refusal, "key_known") == 0 ? 409 : renews ? 403 : 401;
        answer_error(code, refusal, status, answer);
        return;
    }
    if (!renews) {
        memcpy(fake->key, key, sizeof key);
        snprintf(fake->used_token, sizeof fake->used_token, "%s", request->bearer);
    }
    fake->renewals += renews ? 1 : 0;
    const fed_cert_options options = {
        .purpose = FED_CERT_CLIENT,
        .common_name = "device",
        .not_before = 1577836800,
        .not_after = !renews && fake->enrolled_until_s != 0 ? fake->enrolled_until_s : 4102444800};
    assert_fed_ok_err(fed_cert_issue(&fake->ca_key, &fake->ca_cert, csr, &options, &cert, &err));
    const unsigned port = fake->devices_port != 0 ? fake->devices_port : 8444;
    fed_write_printf(answer, "devices-port: %u\n%s", port, cert.text);
}

static void assign(fed_fake *fake, const fed_checkin *checkin, fed_assignment *a) {
    *a = (fed_assignment){.version = fake->version,
                          .digest = fed_digest(fake->model, fake->arch.layout.size),
                          .task = fake->task,
                          .privacy = fake->privacy};
    a->digest ^= fake->wrong_digest ? 1 : 0;
    const fed_held *held = fed_checkin_held(checkin, fake->task.id);
    bool holds = held != NULL && held->version == fake->version;
    bool over = fake->version >= fake->rounds;
    a->retry_ms = fake->retry_ms != 0 ? fake->retry_ms : 1234;
    a->capabilities =
        (fake->whole_only ? 0 : FED_CAN_PIECES) | (fake->no_declines ? 0 : FED_CAN_DECLINE) |
        (fake->no_worker_groups ? 0 : checkin->capabilities & FED_CAN_WORKER_GROUP) |
        (fake->no_named ? 0 : checkin->capabilities & FED_CAN_NAMED) |
        (fake->no_own ? 0 : checkin->capabilities & FED_CAN_OWN_METRICS) |
        (fake->no_absent_loss ? 0 : checkin->capabilities & FED_CAN_NO_LOSS) |
        (fake->no_absent_accuracy ? 0 : checkin->capabilities & FED_CAN_NO_ACCURACY) |
        (fake->task.downloads[0] != '\0' ? checkin->capabilities & FED_CAN_URL : 0) |
        (fake->no_starts ? 0 : checkin->capabilities & FED_STARTED) |
        (checkin->capabilities & FED_CAN_TASKS) |
        (fake->privacy.clip > 0 ? checkin->capabilities & FED_CAN_PRIVATE : 0) |
        (fake->no_personal ? 0 : checkin->capabilities & FED_CAN_PERSONAL) |
        (fake->task.private_layers[0] != '\0' ? checkin->capabilities & FED_CAN_PRIVATE_LAYERS
                                              : 0) |
        (fake->wants_renewal ? FED_RENEW : 0);
    if (fake->declined.reason[0] != '\0' && !over) {
        a->action = FED_ACTION_WAIT;
        a->reason = FED_WAIT_DECLINED;
        return;
    }
    if (checkin->role == FED_ROLE_EVALUATE && fake->evaluated <= fake->version) {
        a->action = FED_ACTION_EVALUATE;
    } else if (over && !holds) {
        a->action = FED_ACTION_DONE;
    } else if (over || checkin->role == FED_ROLE_EVALUATE) {
        a->action = FED_ACTION_WAIT;
        a->reason = over ? FED_WAIT_FINISHED : FED_WAIT_NO_MODEL;
    } else {
        a->action = FED_ACTION_TRAIN;
        a->round = fake->version + 1;
        a->lease = fake->lease;
        a->deadline_ms = fake->deadline_ms;
    }
}

static void checkin(fed_fake *fake, fed_reader *body, int *status, fed_writer *answer) {
    fed_checkin m;
    fed_assignment a;
    if (body->len > 0 && body->data[0] > fake->protocol) {
        answer_error(400, "protocol_version", status, answer);
        fake->refused++;
        return;
    }
    assert_fed_ok(fed_checkin_read(body, &m));
    fake->capabilities = m.capabilities;
    fake->samples = m.samples;
    if (fake->no_tasks && (m.capabilities & FED_CAN_TASKS) != 0) {
        answer_error(400, "bad_request", status, answer);
        fake->refused++;
        return;
    }
    assign(fake, &m, &a);
    fed_assignment_write(answer, m.protocol, &a);
    fake->checkins++;
}

static void write_snapshot(const fed_fake *fake, fed_writer *answer) {
    fed_error err = {0};
    fedcodec whole;
    fed_writer envelope;
    size_t n = fake->arch.layout.size;
    float *copy = malloc(n * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, fake->model, n * sizeof *copy);
    fed_writer_growing(&envelope);
    assert_fed_ok_err(fedcodec_parse("float32", &whole, &err));
    void *work =
        malloc(fedcodec_envelope_work_size(&whole, &fake->arch.layout, fake->task.small_tensor));
    assert_non_null(work);
    assert_fed_ok(
        fedcodec_envelope_encode(&whole, &fake->arch.layout, 0, copy, NULL, work, &envelope));
    free(work);
    const fed_part part = {.kind = FED_PART_SNAPSHOT,
                           .from = fake->version,
                           .to = fake->version,
                           .envelope = envelope.data,
                           .envelope_len = envelope.len};
    fed_part_write(answer, &part);
    fed_writer_free(&envelope);
    free(copy);
}

static void model(fed_fake *fake, const char *url, int *status, fed_writer *answer) {
    uint64_t task = 0;
    uint32_t have = 0, want = 0;
    char held[16];
    assert_int_equal(sscanf(strchr(url, '?'), "?task=%" SCNu64 "&have=%15[^&]&want=%" SCNu32, &task,
                            held, &want),
                     3);
    fake->downloads++;
    if (strcmp(held, "none") == 0 && want == fake->version) {
        write_snapshot(fake, answer);
        return;
    }
    have = (uint32_t)strtoul(held, NULL, 10);
    if (fake->gone || task != fake->task.id || have >= want || want > fake->version) {
        answer_error(404, "model_gone", status, answer);
        return;
    }
    for (uint32_t v = have; v < want; v++) {
        const fed_part part = {.kind = FED_PART_DELTA,
                               .from = v,
                               .to = v + 1,
                               .envelope = fake->delta[v].data,
                               .envelope_len = fake->delta[v].len};
        fed_part_write(answer, &part);
    }
}

static void layout(fed_fake *fake, const char *url, int *status, fed_writer *answer) {
    uint64_t task = 0;
    assert_int_equal(sscanf(strchr(url, '?'), "?task=%" SCNu64, &task), 1);
    if (task != fake->task.id || !fed_layout_is_reference(fake->task.model)) {
        answer_error(404, "layout_gone", status, answer);
        return;
    }
    const char *text = fake->misled != NULL ? fake->misled : fake->arch.text;
    fed_write_bytes(answer, text, strlen(text));
    fake->layouts++;
}

static void own(fed_fake *fake, fed_reader *body) {
    assert_fed_ok(fed_own_metrics_read(body, &fake->own));
    assert_true(!fake->no_own || fake->own.count == 0);
}

/* As a helper: check the signature, open the seed, and take its mask off the fields. */
static void unmask(fed_fake *fake, uint64_t lease, const fedcodec_ring *ring, const uint8_t *body,
                   size_t len, uint32_t *sums) {
    fed_error err;
    fed_reader r;
    fed_reader_init(&r, body + 1, len - 1);
    assert_fed_ok(fed_private_read(&r, &fake->sealed));
    assert_int_equal(fed_reader_left(&r), ring->shape.bytes);
    assert_fed_ok_err(fed_private_check(&fake->sealed, lease, &err));
    assert_fed_ok_err(
        fed_private_open(&fake->sealed, 0, lease, fake->helper_secret, fake->seed, &err));
    uint32_t *mask = calloc(ring->shape.all, sizeof *mask);
    assert_non_null(mask);
    assert_fed_ok(fed_private_mask(fake->seed, ring->shape.width, 0, mask, ring->shape.all));
    fed_private_unpack(fed_read_bytes(&r, ring->shape.bytes), ring->shape.width, 0, sums,
                       ring->shape.all);
    for (size_t i = 0; i < ring->shape.all; i++) {
        sums[i] -= mask[i];
    }
    free(mask);
}

/* Append the envelope of what a private update alone stands for. */
static void open_fields(fed_fake *fake, uint64_t lease, const fedcodec *codec, uint32_t round,
                        const uint8_t *body, size_t len, fed_writer *envelope) {
    const size_t n = fake->arch.layout.size;
    fedcodec_ring ring = {
        .shape = fed_privacy_shape(&fake->privacy, (unsigned)codec->param[0], codec->param[1], n)};
    uint32_t *sums = calloc(ring.shape.all, sizeof *sums);
    float *values = calloc(n, sizeof *values);
    fedcodec whole;
    assert_true(sums != NULL && values != NULL);
    assert_true(body[0] == FED_OWN_ENVELOPE && body[1] == fake->privacy.helpers);
    fed_privacy_draw(fake->task.id, fed_privacy_drawn(&fake->privacy, round), ring.draw);
    if (fake->privacy.helpers > 0) {
        unmask(fake, lease, &ring, body, len, sums);
    } else {
        assert_int_equal(len, FED_PRIVATE_HEAD + ring.shape.bytes);
        assert_fed_ok(fedcodec_ring_check(&ring, body + FED_PRIVATE_HEAD, ring.shape.bytes, NULL));
        fedcodec_ring_add(&ring, body + FED_PRIVATE_HEAD, sums);
    }
    (void)fedcodec_ring_sums(&ring, sums);
    fake->count = fake->privacy.counted ? (int32_t)sums[ring.shape.fields] : 0;
    fedcodec_ring_change(&ring, sums, 1, values);
    assert_fed_ok(fedcodec_parse("float32", &whole, NULL));
    void *work = malloc(
        fedcodec_envelope_work_size(&whole, &fake->arch.layout, fake->task.small_tensor) + 1);
    assert_fed_ok(fedcodec_envelope_encode(&whole, &fake->arch.layout, fake->task.small_tensor,
                                           NULL, values, work, envelope));
    free(work);
    free(values);
    free(sums);
}

static void update(fed_fake *fake, const uint8_t *body, size_t len, int *status,
                   fed_writer *answer) {
    fed_reader r;
    fed_update m;
    fed_error err = {0};
    fedcodec codec;
    fed_reader_init(&r, body, len);
    assert_fed_ok(fed_update_read(&r, &m));
    own(fake, &r);
    fake->loss = m.loss;
    fake->updates++;
    if (m.lease == fake->last_lease) { /* sent again: all of its bytes must be the same */
        assert_int_equal(len, fake->last_update.len);
        assert_memory_equal(body, fake->last_update.data, len);
        fake->resent++;
        return;
    }
    if (m.task != fake->task.id || m.lease != fake->lease) {
        answer_error(409, "lease_expired", status, answer);
        return;
    }
    const uint8_t *envelope = body + r.pos;
    size_t size = fed_reader_left(&r);
    const fed_layout *layout = &fake->arch.layout;
    fed_writer opened;
    fed_writer_growing(&opened);
    float most = 0;
    assert_fed_ok_err(fedcodec_parse(fake->task.codec_up, &codec, &err));
    if (fedcodec_is_ring(codec.vtable)) {
        assert_true(m.samples == 1 && m.loss == 0 && fake->own.count == 0);
        open_fields(fake, m.lease, &codec, m.round, body + r.pos, fed_reader_left(&r), &opened);
        envelope = opened.data;
        size = opened.len;
        assert_fed_ok(fedcodec_parse("float32", &codec, NULL));
    }
    assert_fed_ok_err(fedcodec_envelope_check(envelope, size, layout, &codec,
                                              fake->task.small_tensor, &most, &err));
    if (most > FEDCODEC_FOLD_LIMIT) {
        answer_error(422, "out_of_range", status, answer);
        return;
    }
    assert_fed_ok_err(fedcodec_envelope_axpy(envelope, size, layout, 1, fake->counted, &err));
    assert_fed_ok_err(fedcodec_envelope_axpy(envelope, size, layout, 1, fake->model, &err));
    assert_true(fake->version < FED_FAKE_VERSIONS);
    fed_write_bytes(&fake->delta[fake->version], envelope, size);
    fed_writer_free(&opened);
    fed_writer_free(&fake->last_update);
    fed_write_bytes(&fake->last_update, body, len);
    fake->version++;
    fake->last_lease = fake->lease++;
}

static void piece(fed_fake *fake, const uint8_t *body, size_t len, int *status,
                  fed_writer *answer) {
    fed_reader r;
    fed_piece m;
    fed_writer *message = &fake->message;
    fed_reader_init(&r, body, len);
    if (fake->whole_only) {
        answer_error(404, "not_found", status, answer);
        return;
    }
    if (fed_piece_read(&r, &m) != FED_OK) { /* the request ended within the message's head */
        return;
    }
    fake->pieces++;
    if (fake->claims_all) {
        assert_true(fake->pieces < 100); /* otherwise the device would ask for ever */
        *status = 202;
        fed_write_u64(answer, m.total);
        return;
    }
    fake->received_bytes += fed_reader_left(&r);
    if (m.lease == fake->last_lease) {
        return;
    }
    if (m.task != fake->task.id || m.lease != fake->lease) {
        answer_error(409, "lease_expired", status, answer);
        return;
    }
    if (m.lease != fake->piece.lease || m.digest != fake->piece.digest) {
        fed_writer_free(message);
        fake->piece = m;
    }
    if (m.offset == message->len) {
        size_t left = fed_reader_left(&r);
        fed_write_bytes(message, fed_read_bytes(&r, left), left);
    }
    if (message->len < m.total) {
        *status = 202;
        fed_write_u64(answer, message->len);
        return;
    }
    assert_int_equal(message->len, m.total);
    assert_true(fed_digest_bytes(message->data, message->len) == m.digest);
    update(fake, message->data, message->len, status, answer);
    fed_writer_free(message);
}

static void decline(fed_fake *fake, fed_reader *body) {
    assert_false(fake->no_declines);
    assert_fed_ok(fed_decline_read(body, &fake->declined));
    assert_true(fake->declined.task == fake->task.id);
    fake->declines++;
    fake->lease += fake->declined.lease == fake->lease ? 1 : 0;
}

static void group(fed_fake *fake, fed_reader *body) {
    assert_false(fake->no_worker_groups);
    assert_false(fake->no_named && body->data[body->pos] == FED_WORKER_GROUP_LAYOUT_NAMED);
    assert_fed_ok(fed_worker_group_read(body, &fake->group));
    fake->groups++;
}

static void metric(fed_fake *fake, fed_reader *body) {
    assert_fed_ok(fed_metric_read(body, &fake->metric));
    own(fake, body);
    assert_fed_ok(fed_reader_end(body));
    assert_int_equal(fake->metric.version, fake->version);
    fake->evaluated = fake->metric.version + 1;
    fake->metrics++;
}

static void cut_range(fedclient_range *range, int *status, fed_writer *answer) {
    range->begin = 0;
    range->total = answer->len;
    range->tag = fed_digest_bytes(answer->data, answer->len);
    bool asked = range->first != 0 || range->most != 0;
    if (!asked || (range->if_tag != 0 && range->if_tag != range->tag)) {
        return;
    }
    assert_true(range->first < answer->len);
    size_t left = answer->len - (size_t)range->first;
    left = range->most != 0 && range->most < left ? (size_t)range->most : left;
    memmove(answer->data, answer->data + range->first, left);
    answer->len = left;
    range->begin = range->first;
    *status = 206;
}

/** Answer a request. midway: take only half of its body, or give only half of the answer. */
static void handle(fed_fake *fake, const fedclient_request *request, bool midway, int *status,
                   fed_writer *answer) {
    uint8_t *body = NULL;
    size_t len = request->body != NULL ? read_body(request->body, &body) : 0;
    len = midway ? len / 2 : len;
    if (midway && request->body != NULL && strstr(request->url, "/v1/piece") == NULL) {
        free(body);
        return;
    }
    fed_reader r;
    fed_reader_init(&r, body, len);
    *status = 200;
    const bool enrols =
        strstr(request->url, "/v1/enrol") != NULL || strstr(request->url, "/v1/renew") != NULL;
    if (enrols && body != NULL) {
        body[len] = '\0';
        enrol(fake, request, (const char *)body, status, answer);
    } else if (strstr(request->url, "/v1/checkin") != NULL) {
        checkin(fake, &r, status, answer);
    } else if (strstr(request->url, "/v1/model?") != NULL) {
        model(fake, request->url, status, answer);
        if (*status == 200 && request->range != NULL && !fake->rangeless) {
            cut_range(request->range, status, answer);
        }
        answer->len = midway ? answer->len / 2 : answer->len;
        fake->sent_bytes += answer->len;
    } else if (strstr(request->url, "/v1/piece") != NULL) {
        piece(fake, body, len, status, answer);
    } else if (strstr(request->url, "/v1/update") != NULL) {
        fake->received_bytes += len;
        update(fake, body, len, status, answer);
    } else if (strstr(request->url, "/v1/decline") != NULL) {
        decline(fake, &r);
    } else if (strstr(request->url, "/v1/layout?") != NULL) {
        layout(fake, request->url, status, answer);
        answer->len = midway ? answer->len / 2 : answer->len;
    } else if (strstr(request->url, "/v1/gang") != NULL) {
        group(fake, &r);
    } else {
        assert_non_null(strstr(request->url, "/v1/metric"));
        metric(fake, &r);
    }
    free(body);
}

static void forget_range(const fedclient_request *request) {
    if (request->range != NULL) {
        *request->range = (fedclient_range){0};
    }
}

static fed_status spoil(fed_fake *fake, const fedclient_request *request, int *status,
                        fed_writer *answer, fed_error *err) {
    const fed_fake_plan *plan = &fake->plan;
    switch (plan->fault) {
    case FED_FAKE_UNREACHABLE:
    case FED_FAKE_LOST_ANSWER:
    case FED_FAKE_MIDWAY:
        return fed_fail(err, FED_ENET,
                        "the fake coordinator's connection broke (planned by the test)");
    case FED_FAKE_SILENT:
        return fed_fail(err, FED_ETIMEOUT, "no byte moved (planned by the test)");
    case FED_FAKE_UNTRUSTED:
        return fed_fail(err, FED_EAUTH, "the fake's certificate can't be trusted");
    case FED_FAKE_STATUS:
        answer_error(plan->status, plan->error, status, answer);
        if (plan->retry_after_s > 0) {
            *request->retry_after_s = plan->retry_after_s;
        }
        return FED_OK;
    case FED_FAKE_GARBAGE:
        forget_range(request);
        answer->len = 0;
        fed_write_printf(answer, "<html>garbage</html>");
        return FED_OK;
    case FED_FAKE_LONG:
        while (answer->len <= request->answer_limit) {
            fed_write_u8(answer, 0);
        }
        return FED_OK;
    case FED_FAKE_TRUNCATED:
        forget_range(request);
        answer->len /= 2;
        return FED_OK;
    }
    return FED_OK;
}

static fed_status fake_send(void *user, const fedclient_request *request, int *status,
                            fed_writer *answer, fed_error *err) {
    fed_fake *fake = user;
    uint64_t number = fake->requests++;
    snprintf(fake->last_url, sizeof fake->last_url, "%s", request->url);
    if (request->device_name != NULL) {
        snprintf(fake->last_name, sizeof fake->last_name, "%s", request->device_name);
    }
    if (request->kind == FED_REQUEST_CHECKIN) {
        fake->last_hold_ms = request->hold_ms;
        fake->last_patience_ms = request->patience_ms;
    }
    if (request->kind == FED_REQUEST_CHECKIN || request->computes_on != NULL) {
        snprintf(fake->last_computes_on, sizeof fake->last_computes_on, "%s",
                 request->computes_on != NULL ? request->computes_on : "");
    }
    if (request->kind == FED_REQUEST_CHECKIN || request->classes != NULL) {
        snprintf(fake->last_classes, sizeof fake->last_classes, "%s",
                 request->classes != NULL ? request->classes : "");
    }
    if (request->software != NULL) {
        snprintf(fake->last_software, sizeof fake->last_software, "%s", request->software);
    }
    bool dies = number == fake->dies_at;
    if (number > fake->dies_at || (dies && !fake->dies_answering && !fake->dies_midway)) {
        return fed_fail(err, FED_ENET,
                        "the fake coordinator does not answer (planned by the test)");
    }
    bool planned = fake->plan.times > 0 && strstr(request->url, fake->plan.path) != NULL;
    fake->plan.times -= planned ? 1 : 0;
    if (!planned ||
        (fake->plan.fault != FED_FAKE_UNREACHABLE && fake->plan.fault != FED_FAKE_UNTRUSTED &&
         fake->plan.fault != FED_FAKE_STATUS)) {
        bool midway = planned && fake->plan.fault == FED_FAKE_MIDWAY;
        handle(fake, request, midway || (dies && fake->dies_midway), status, answer);
    }
    if (dies) {
        return fed_fail(err, FED_ENET,
                        "the fake coordinator stopped during the request (planned by the test)");
    }
    FED_TRY(planned ? spoil(fake, request, status, answer, err) : FED_OK);
    return answer->len <= request->answer_limit
               ? FED_OK
               : fed_fail(err, FED_ERANGE, "the fake's answer is longer than the device reads");
}

static fed_status fake_identify(void *user, const fed_pem *key, const fed_pem *cert,
                                fed_error *err) {
    fed_fake *fake = user;
    (void)key, (void)cert, (void)err;
    fake->identified++;
    return FED_OK;
}

static void fake_disconnect(void *user) {
    (void)user;
}

static void fake_traffic(void *user, fedclient_traffic *traffic) {
    const fed_fake *fake = user;
    *traffic = (fedclient_traffic){.requests = fake->requests};
}

static void model_init(fed_fake *fake, const char *name) {
    fed_error err = {0};
    assert_fed_ok_err(fed_arch_parse(name, &fake->arch, &err));
    if (strstr(name, "tensors ") == name) {
        fed_layout_name(&fake->arch, fake->task.model);
    } else {
        snprintf(fake->task.model, sizeof fake->task.model, "%s", name);
    }
    size_t n = fake->arch.layout.size;
    fake->model = calloc(n, sizeof *fake->model);
    fake->counted = calloc(n, sizeof *fake->counted);
    assert_true(fake->model != NULL && fake->counted != NULL);
    for (size_t i = 0; i < n; i++) {
        fake->model[i] = (float)(i % 17) / 1024.0f;
    }
}

static fed_pem ca_key, ca_cert;

void fed_fake_open(fed_fake *fake, const char *name, const char *codec, uint32_t rounds) {
    fed_error err = {0};
    *fake = (fed_fake){.task = {.id = 7,
                                .small_tensor = 4,
                                .local_steps = 10,
                                .batch = 8,
                                .optimizer = "sgd",
                                .learning_rate = 0.01f,
                                .seed = 1},
                       .rounds = rounds,
                       .lease = 1000,
                       .deadline_ms = 60000,
                       .protocol = FED_PROTOCOL,
                       .dies_at = UINT64_MAX};
    fake->transport = (fedclient_transport){.user = fake,
                                            .send = fake_send,
                                            .identify = fake_identify,
                                            .disconnect = fake_disconnect,
                                            .traffic = fake_traffic};
    snprintf(fake->task.codec_up, sizeof fake->task.codec_up, "%s", codec);
    fed_writer_growing(&fake->last_update);
    fed_writer_growing(&fake->message);
    for (size_t k = 0; k < FED_FAKE_VERSIONS; k++) {
        fed_writer_growing(&fake->delta[k]);
    }
    model_init(fake, name);
    if (ca_key.text[0] == '\0') { /* the key is made once per program, because that is slow */
        assert_fed_ok_err(fed_key_new(&ca_key, &err));
        assert_fed_ok_err(fed_ca_new(&ca_key, "fake", 1577836800, 4102444800, &ca_cert, &err));
    }
    fake->ca_key = ca_key;
    fake->ca_cert = ca_cert;
}

static void model_free(fed_fake *fake) {
    fed_arch_free(&fake->arch);
    free(fake->model);
    free(fake->counted);
    fed_writer_free(&fake->last_update);
    fed_writer_free(&fake->message);
    for (size_t k = 0; k < FED_FAKE_VERSIONS; k++) {
        fed_writer_free(&fake->delta[k]);
    }
}

void fed_fake_close(fed_fake *fake) {
    model_free(fake);
    *fake = (fed_fake){0};
}

void fed_fake_fail(fed_fake *fake, const char *path, fed_fake_fault fault, unsigned times) {
    fake->plan = (fed_fake_plan){.path = path, .fault = fault, .times = times};
}

void fed_fake_refuse(fed_fake *fake, const char *path, int status, const char *error) {
    fed_fake_fail(fake, path, FED_FAKE_STATUS, 1);
    fake->plan.status = status;
    fake->plan.error = error;
}

void fed_fake_expire(fed_fake *fake) {
    fake->lease++;
}

void fed_fake_new_task(fed_fake *fake, const char *name) {
    model_free(fake);
    fake->task.id++;
    fake->version = 0;
    fake->lease++;
    model_init(fake, name);
}

static fed_status flash_put(void *user, const char *key, const void *data, size_t len,
                            fed_error *err) {
    fed_fake_flash *flash = user;
    uint64_t number = flash->puts++;
    bool dying = !flash->dead && number == flash->dies_at;
    flash->dead = flash->dead || dying;
    if (flash->full != NULL && strncmp(key, flash->full, strlen(flash->full)) == 0) {
        return fed_fail(err, FED_ENOSPC, "the flash is full");
    }
    if (!flash->dead || (dying && flash->dies_writing)) {
        FED_TRY(flash->inner.put(flash->inner.user, key, data, len, err));
    }
    return flash->dead ? fed_fail(err, FED_EIO, "the flash lost power at put %" PRIu64, number)
                       : FED_OK;
}

static fed_status flash_get(void *user, const char *key, uint8_t **data, size_t *len,
                            fed_error *err) {
    fed_fake_flash *flash = user;
    if (flash->dead) {
        return fed_fail(err, FED_EIO, "the flash has no power");
    }
    return flash->inner.get(flash->inner.user, key, data, len, err);
}

static fed_status flash_drop(void *user, const char *key, fed_error *err) {
    fed_fake_flash *flash = user;
    if (flash->dead) {
        return fed_fail(err, FED_EIO, "the flash has no power");
    }
    return flash->inner.drop(flash->inner.user, key, err);
}

static int64_t flash_unix_ms(void *user) {
    fed_fake_flash *flash = user;
    return flash->inner.unix_ms(flash->inner.user);
}

static int64_t flash_monotonic_ms(void *user) {
    fed_fake_flash *flash = user;
    return flash->inner.monotonic_ms(flash->inner.user);
}

static void *flash_room(void *user, size_t len) {
    fed_fake_flash *flash = user;
    return flash->lends->room(flash->inner.user, len);
}

static void flash_leave(void *user, void *room) {
    fed_fake_flash *flash = user;
    flash->lends->leave(flash->inner.user, room);
}

static fed_status flash_give(void *user, const char *key, void *room, size_t len, fed_error *err) {
    FED_TRY(flash_put(user, key, room, len, err));
    fed_fake_flash *flash = user;
    return flash->lends->give(flash->inner.user, key, room, len, err);
}

static fed_status flash_lend(void *user, const char *key, const uint8_t **data, size_t *len,
                             fed_error *err) {
    fed_fake_flash *flash = user;
    if (flash->dead) {
        return fed_fail(err, FED_EIO, "the flash has no power");
    }
    return flash->lends->lend(flash->inner.user, key, data, len, err);
}

void fed_fake_flash_lend(fed_fake_flash *flash) {
    static const fedclient_memory lending = {
        .room = flash_room, .leave = flash_leave, .give = flash_give, .lend = flash_lend};
    flash->platform.memory = &lending;
    flash->inner.memory = flash->lends;
}

void fed_fake_flash_open(fed_fake_flash *flash) {
    fed_error err = {0};
    *flash = (fed_fake_flash){.dies_at = UINT64_MAX};
    assert_fed_ok_err(fedclient_platform_memory_open(&flash->inner, &err));
    flash->lends = flash->inner.memory;
    flash->inner.memory = NULL; /* the flash chip does not offer its values as memory */
    flash->platform = (fedclient_platform){.user = flash,
                                           .unix_ms = flash_unix_ms,
                                           .monotonic_ms = flash_monotonic_ms,
                                           .put = flash_put,
                                           .get = flash_get,
                                           .drop = flash_drop};
}

void fed_fake_flash_revive(fed_fake_flash *flash) {
    flash->dead = false;
    flash->dies_at = UINT64_MAX;
}

void fed_fake_flash_close(fed_fake_flash *flash) {
    fedclient_platform_memory_close(&flash->inner);
}
