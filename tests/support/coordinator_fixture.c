/* Coordinator and devices for tests without sockets and clock, with real certificates and
 * messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fed_postgres.h"

#include "fed/arch.h"
#include "fed/crypto.h"
#include "fed/file.h"
#include "fed/rng.h"
#include "fed/version.h"

#include "fedcodec/envelope.h"
#include "fedcodec/ring.h"
#include "fedserver/operator.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/stores/stores.h"

static void must(fed_status status, const fed_error *err) {
    if (status != FED_OK) {
        fail_msg("%s: %s", fed_status_name(status), err->text);
    }
}

static bool store_is(const char *name) {
    const char *chosen = getenv("FED_TEST_STORE");
    return strcmp(chosen != NULL ? chosen : fedserver_store_at(0)->name, name) == 0;
}

void coordinator_only_on_sqlite(void) {
    if (!store_is("sqlite")) {
        skip();
    }
}

const fedserver_store *coordinator_store(const coordinator *c) {
    fed_error err = {0};
    fedserver_store_choice choice;
    must(fedserver_store_read(c->directory, &choice, &err), &err);
    return choice.store;
}

void coordinator_open(coordinator *c) {
    fed_error err = {0};
    const fedserver_setup setup = {.task_memory = c->task_memory, .address = c->address};
    must(fedserver_open(c->directory, NULL, &c->server, &err), &err);
    fedserver_configure(c->server, &setup);
    fedserver_ports(c->server, 8443, 8444);
    must(fedserver_begin(c->server, &err), &err);
}

static bool taken[FED_POSTGRES_STORES];

static unsigned take_place(void) {
    unsigned k = 0;
    if (!store_is("postgres")) {
        return k;
    }
    while (k < FED_POSTGRES_STORES && taken[k]) {
        k++;
    }
    assert_true(k < FED_POSTGRES_STORES);
    taken[k] = true;
    return k;
}

void coordinator_setup(coordinator *c) {
    fed_error err = {0};
    *c = (coordinator){.place = take_place()};
    fed_test_tmpdir(c->directory, sizeof c->directory);
    c->now_ms = INT64_C(1767225600000); /* 2026-01-01T00:00:00Z */
    const fedserver_init_options options = {
        .store = fed_postgres_store_at(getenv("FED_TEST_STORE"), c->place)};
    must(fedserver_init(c->directory, &options, &err), &err);
    coordinator_open(c);
}

void coordinator_teardown(coordinator *c) {
    fedserver_close(c->server);
    fed_test_rmdir(c->directory);
    taken[c->place] = false;
}

int coordinator_begin(void **state) {
    static coordinator c;
    coordinator_setup(&c);
    *state = &c;
    return 0;
}

int coordinator_end(void **state) {
    coordinator_teardown(*state);
    return 0;
}

void coordinator_crash(coordinator *c) {
    fedserver_close(c->server);
    coordinator_open(c);
}

void coordinator_restart(coordinator *c) {
    coordinator_commit(c);
    coordinator_crash(c);
}

static void fail_on_finding(void *user, fedserver_check_kind kind, const char *text) {
    (void)user;
    if (kind == FEDSERVER_FOUND) {
        fail_msg("%s", text);
    }
}

void coordinator_check(const char *directory) {
    fed_error err = {0};
    size_t findings = 0;
    fedserver *server = NULL;
    must(fedserver_open(directory, NULL, &server, &err), &err);
    must(fedserver_check(server, fail_on_finding, NULL, &findings, &err), &err);
    assert_int_equal(findings, 0);
    fedserver_close(server);
}

void coordinator_one_at_a_time(coordinator *c) {
    c->task_memory = fedserver_rounds_front(&c->server->rounds)->memory_bytes * 3 / 2;
    coordinator_restart(c);
}

void coordinator_commit(coordinator *c) {
    fed_error err = {0};
    must(fedserver_commit(c->server, &err), &err);
    if (store_is("postgres")) {
        fed_postgres_look_again(c->server->db);
    }
    must(fedserver_begin(c->server, &err), &err);
}

void coordinator_wait(coordinator *c, int64_t ms) {
    fed_error err = {0};
    int64_t next_ms;
    c->now_ms += ms;
    must(fedserver_tick(c->server, c->now_ms, &next_ms, &err), &err);
}

uint64_t coordinator_task(coordinator *c, const char *json) {
    fed_error err = {0};
    char path[300];
    uint64_t id = 0;
    snprintf(path, sizeof path, "%s/task.json", c->directory);
    must(fed_file_replace(path, json, strlen(json), 0600, &err), &err);
    coordinator_commit(c);
    must(fedserver_task_add(c->server, c->now_ms, path, &id, &err), &err);
    coordinator_wait(c, 0);
    return id;
}

answer coordinator_ask(coordinator *c, const test_device *d, const char *method, const char *path,
                       const char *query, const void *body, size_t len) {
    fed_error err = {0};
    const fedserver_request request = {
        .listener = d != NULL ? FEDSERVER_DEVICES : FEDSERVER_FRONT,
        .method = method,
        .path = path,
        .query = query,
        .bearer = c->bearer,
        .cookie = c->cookie,
        .host = c->host,
        .origin = c->origin,
        .fetch_site = c->fetch_site,
        .act = c->act,
        .address = c->from_elsewhere ? "192.0.2.7" : "127.0.0.1",
        .loopback = !c->from_elsewhere,
        .range = c->range,
        .if_range = c->if_range,
        .agent = c->agent,
        .computes_on = c->computes_on,
        .classes = c->classes,
        .body = body,
        .body_len = len,
        .fingerprint = d != NULL ? d->fingerprint : NULL,
        .certificate = d != NULL ? d->certificate : NULL,
    };
    fedserver_response response;
    must(fedserver_handle(c->server, &request, c->now_ms, &response, &err), &err);
    answer a = {.status = response.status,
                .hold = response.hold,
                .hold_ms = response.hold_ms,
                .hold_key = response.hold_key};
    const uint8_t *data = response.body != NULL ? fedserver_blob_data(response.body, &a.len) : NULL;
    a.body = calloc(1, a.len + 1);
    if (a.len > 0) {
        memcpy(a.body, data, a.len);
    }
    fedserver_blob_free(response.body);
    memcpy(a.etag, response.etag, sizeof a.etag);
    memcpy(a.set_cookie, response.set_cookie, sizeof a.set_cookie);
    memcpy(a.file_name, response.file_name, sizeof a.file_name);
    a.content_type = response.content_type;
    memcpy(a.content_range, response.content_range, sizeof a.content_range);
    if (a.status >= 400) {
        (void)sscanf((char *)a.body, "{\"error\":\"%31[a-z_]\"", a.error);
    }
    return a;
}

void answer_free(answer *a) {
    free(a->body);
}

int coordinator_status(coordinator *c, const test_device *d, const char *method, const char *path,
                       const char *query, const void *body, size_t len) {
    answer a = coordinator_ask(c, d, method, path, query, body, len);
    answer_free(&a);
    return a.status;
}

json_t *coordinator_json(coordinator *c, const char *path, const char *query) {
    answer a = coordinator_ask(c, NULL, "GET", path, query, NULL, 0);
    assert_int_equal(a.status, 200);
    json_t *root = json_loads((char *)a.body, 0, NULL);
    assert_non_null(root);
    answer_free(&a);
    return root;
}

void answer_expect(answer *a, int status, const char *word) {
    assert_int_equal(a->status, status);
    assert_string_equal(a->error, word);
    answer_free(a);
}

const char *answer_short(int status, const char *word) {
    static char text[48];
    snprintf(text, sizeof text, word[0] != '\0' ? "%d %s" : "%d%s", status, word);
    return text;
}

void coordinator_expect_waits(coordinator *c, const char *words) {
    fedserver *other = NULL;
    fed_error err = {0};
    char text[4000] = "";
    json_t *status = coordinator_json(c, "/v1/status", "");
    const char *waits =
        json_string_value(json_object_get(json_object_get(status, "round"), "waits_for"));
    assert_non_null(waits);
    if (strstr(waits, words) == NULL) {
        fail_msg("waits_for is: %s", waits);
    }
    coordinator_commit(c);
    must(fedserver_open(c->directory, NULL, &other, &err), &err);
    must(fedserver_status(other, c->now_ms, text, sizeof text, &err), &err);
    fedserver_close(other);
    if (strstr(text, waits) == NULL) {
        fail_msg("fedserver status prints: %s", text);
    }
    json_decref(status);
}

test_device coordinator_enrol(coordinator *c) {
    return coordinator_enrol_as(c, &(fedserver_grant){.ttl_s = 3600});
}

test_device coordinator_enrol_evaluator(coordinator *c) {
    const fedserver_grant grant = {.ttl_s = 3600, .role = FEDSERVER_ROLE_EVALUATOR};
    return coordinator_enrol_as(c, &grant);
}

test_device coordinator_enrol_as(coordinator *c, const fedserver_grant *grant) {
    fed_error err = {0};
    fed_pem key;
    must(fed_key_new(&key, &err), &err);
    return coordinator_enrol_key(c, grant, &key);
}

test_device coordinator_enrol_key(coordinator *c, const fedserver_grant *grant,
                                  const fed_pem *key) {
    fed_error err = {0};
    fed_pem csr;
    test_device d = {.key = *key};
    char token[FEDSERVER_TOKEN];
    coordinator_commit(c);
    must(fedserver_token_grant(c->server, c->now_ms, grant, token, &err), &err);
    must(fed_csr_new(&d.key, "test", &csr, &err), &err);
    const fedserver_request request = {.listener = FEDSERVER_FRONT,
                                       .method = "POST",
                                       .path = "/v1/enrol",
                                       .query = "",
                                       .bearer = token,
                                       .address = c->from_elsewhere ? "192.0.2.7" : "127.0.0.1",
                                       .device_name = c->device_name,
                                       .body = (const uint8_t *)csr.text,
                                       .body_len = strlen(csr.text)};
    fedserver_response response;
    must(fedserver_handle(c->server, &request, c->now_ms, &response, &err), &err);
    assert_int_equal(response.status, 200);
    size_t len;
    const char *text = (const char *)fedserver_blob_data(response.body, &len);
    char pem[FED_PEM_SIZE + 64];
    assert_true(len < sizeof pem);
    memcpy(pem, text, len);
    pem[len] = '\0';
    fedserver_blob_free(response.body);
    assert_int_equal(strncmp(pem, "devices-port: 8444\n", 19), 0);
    must(fed_cert_key_fingerprint(pem + 19, d.fingerprint, &err), &err);
    must(fed_cert_fingerprint(pem + 19, d.certificate, &err), &err);
    return d;
}

fed_assignment device_checkin(coordinator *c, const test_device *d, fed_role role, uint64_t task,
                              uint32_t version) {
    const fed_checkin said = {.role = role,
                              .held = {{task, version}},
                              .capabilities = FED_CAN_APP | FED_CAN_STAGES | FED_CAN_LONG |
                                              FED_CAN_EDEN | FED_CAN_LAYOUT | FED_CAN_PRIVATE |
                                              FED_CAN_PRIVATE_LAYERS | FED_CAN_COUNT |
                                              FED_CAN_VARIATES};
    return device_say(c, d, &said);
}

fed_assignment device_say(coordinator *c, const test_device *d, const fed_checkin *checkin) {
    uint8_t body[128];
    fed_writer w;
    fed_writer_fixed(&w, body, sizeof body);
    fed_checkin_write(&w, checkin);
    assert_fed_ok(w.status);
    answer a = coordinator_ask(c, d, "POST", "/v1/checkin", "", body, w.len);
    assert_int_equal(a.status, 200);
    assert_false(a.hold);
    fed_assignment assignment;
    fed_reader r;
    fed_reader_init(&r, a.body, a.len);
    const uint8_t protocol = checkin->protocol != 0 ? checkin->protocol : FED_PROTOCOL;
    assert_fed_ok(fed_assignment_read(&r, protocol, &assignment));
    assert_fed_ok(fed_reader_end(&r));
    answer_free(&a);
    return assignment;
}

fed_assignment device_ask_work(coordinator *c, const test_device *d) {
    return device_checkin(c, d, FED_ROLE_TRAIN, 0, 0);
}

static fed_status numbers(void *user, void *dst, size_t len) {
    fed_rng_fill(user, dst, len / sizeof(uint32_t));
    return FED_OK;
}

/* As a device of a private task does, but the same values make the same bytes. */
static void encode_private(const fed_assignment *work, const fedcodec *codec, const float *x,
                           size_t n, fed_writer *w) {
    fed_rng rng;
    fedcodec_ring ring = {
        .shape = fed_privacy_shape(&work->privacy, (unsigned)codec->param[0], codec->param[1], n)};
    fed_privacy_draw(work->task.id, fed_privacy_drawn(&work->privacy, work->round), ring.draw);
    fed_rng_init(&rng, fed_digest(x, n), work->round, 0);
    uint8_t *fields = malloc(ring.shape.bytes);
    assert_non_null(fields);
    assert_fed_ok(fedcodec_ring_encode(&ring, work->privacy.clip, x, numbers, &rng, fields, NULL));
    fed_update_write(
        w, &(fed_update){
               .task = work->task.id, .round = work->round, .lease = work->lease, .samples = 1});
    fed_write_u8(w, FED_OWN_ENVELOPE);
    fed_write_u8(w, 0); /* helpers */
    fed_write_bytes(w, fields, ring.shape.bytes);
    free(fields);
}

void device_encode(const fed_assignment *work, const float *x, uint32_t samples, fed_writer *w) {
    fed_error err = {0};
    fed_arch arch;
    fedcodec codec[2];
    must(fed_arch_parse(work->task.model, &arch, &err), &err);
    must(fedcodec_parse_pair(work->task.codec_up, work->task.codec_variates, codec, &err), &err);
    if (codec->variates != NULL) {
        fed_arch_code_variates(&arch);
    }
    if (fedcodec_is_ring(codec->vtable)) {
        encode_private(work, codec, x, arch.layout.size, w);
        fed_arch_free(&arch);
        return;
    }
    fed_update_write(w, &(fed_update){.task = work->task.id,
                                      .round = work->round,
                                      .lease = work->lease,
                                      .samples = samples,
                                      .loss = 0.5f});
    size_t work_size = fedcodec_envelope_work_size(codec, &arch.layout, work->task.small_tensor);
    void *memory = malloc(work_size + 1);
    float *residual = calloc(arch.layout.size, sizeof *residual);
    must(fedcodec_envelope_encode(codec, &arch.layout, work->task.small_tensor, residual, x, memory,
                                  w),
         &err);
    free(residual);
    free(memory);
    fed_arch_free(&arch);
}

void device_expect(coordinator *c, const test_device *d, fed_writer *body, int status,
                   const char *word) {
    answer a = coordinator_ask(c, d, "POST", "/v1/update", "", body->data, body->len);
    assert_int_equal(a.status, status);
    assert_string_equal(a.error, word);
    answer_free(&a);
    fed_writer_free(body);
}

int device_upload(coordinator *c, const test_device *d, const fed_assignment *work, const float *x,
                  uint32_t samples, char word[32]) {
    fed_writer body;
    fed_writer_growing(&body);
    device_encode(work, x, samples, &body);
    answer a = coordinator_ask(c, d, "POST", "/v1/update", "", body.data, body.len);
    if (word != NULL) {
        memcpy(word, a.error, sizeof a.error);
    }
    int status = a.status;
    answer_free(&a);
    fed_writer_free(&body);
    return status;
}

int device_download(coordinator *c, const test_device *d, const fed_task *task, int64_t have,
                    uint32_t want, float *values, size_t *len) {
    fed_error err = {0};
    fed_arch arch;
    char query[128];
    char from[24] = "none";
    if (have >= 0) {
        snprintf(from, sizeof from, "%lld", (long long)have);
    }
    snprintf(query, sizeof query, "task=%llu&have=%s&want=%u", (unsigned long long)task->id, from,
             want);
    answer a = coordinator_ask(c, d, "GET", "/v1/model", query, NULL, 0);
    must(fed_arch_parse(task->model, &arch, &err), &err);
    fed_reader r;
    fed_reader_init(&r, a.body, a.len);
    while (a.status == 200 && fed_reader_left(&r) > 0) {
        fed_part part;
        assert_fed_ok(fed_part_read(&r, &part));
        if (part.kind == FED_PART_SNAPSHOT) {
            memset(values, 0, arch.layout.size * sizeof *values);
        }
        must(fedcodec_envelope_axpy(part.envelope, (size_t)part.envelope_len, &arch.layout, 1.0f,
                                    values, &err),
             &err);
    }
    if (len != NULL) {
        *len = a.len;
    }
    int status = a.status;
    answer_free(&a);
    fed_arch_free(&arch);
    return status;
}

fedserver_device *coordinator_device(const coordinator *c, const test_device *d) {
    fed_error err = {0};
    fedserver_device *device = NULL;
    assert_fed_ok_err(fedserver_device_fetch(&c->server->rounds, d->fingerprint, &device, &err));
    return device;
}

bool coordinator_wakes(coordinator *c, const test_device *d) {
    const uint64_t wanted =
        d != NULL ? (uint64_t)coordinator_device(c, d)->id : FEDSERVER_HOLD_VERSION;
    bool wakes = false;
    for (uint64_t key = fedserver_woken(c->server); key != 0; key = fedserver_woken(c->server)) {
        wakes = wakes || key == wanted;
    }
    return wakes;
}

uint64_t coordinator_enrolled(const coordinator *c) {
    fed_error err = {0};
    uint64_t count = 0;
    assert_fed_ok_err(c->server->store->device_count(c->server->db, &count, &err));
    return count;
}

static fed_status keep_line(void *user, const fedserver_audit_entry *entry, fed_error *err) {
    audit_lines *l = user;
    const size_t len = strlen(l->events);
    (void)err;
    snprintf(l->events + len, sizeof l->events - len, "%s ", entry->event);
    snprintf(l->detail, sizeof l->detail, "%s", entry->detail);
    l->count++;
    return FED_OK;
}

audit_lines coordinator_audit(const coordinator *c, int64_t since_ms) {
    fed_error err = {0};
    audit_lines l = {.count = 0};
    assert_fed_ok_err(fedserver_audit_each(c->server, since_ms, keep_line, &l, &err));
    return l;
}
