/* The transport of a run in one process: makes a client's request a fedserver_request, lets it
 * travel in virtual time, and waits for the answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/inproc_transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/sim/inproc/clip_ignored.h"
#include "deploy/sim/inproc/step_threads.h"
#include "fed/hash.h"
#include "fed/wire.h"

/*
 * The traffic counts the bytes of HTTP/1.1, as libcurl writes a request and libmicrohttpd an
 * answer, without those of TLS, as in a run over HTTPS. The port in Host has five digits. A body of
 * 64 KB or more is announced first: "Expect: 100-continue" is 22 bytes of request, and its answer
 * 25 bytes. Of a broken upload, the bytes that were sent are counted.
 */
enum {
    EXPECTED_FROM = 65536,
    CONTINUE_BYTES = 25,
    /* In each answer: status line, Date, Cache-Control, X-Content-Type-Options, empty line. */
    ANSWER_LINES_BYTES = 17 + 37 + 25 + 33 + 2,
    IDLE_US = 60 * 1000000 /* a connection that has been idle for this time is closed */
};

static fed_status split_url(sim_actor *actor, const char *url, fed_error *err) {
    const char *host = strstr(url, "://");
    const char *path = host != NULL ? strchr(host + 3, '/') : NULL;
    if (path == NULL || strlen(path) >= sizeof actor->path) {
        return fed_fail(err, FED_EINVAL, "%.100s: not a URL of the simulation's coordinator", url);
    }
    memcpy(actor->path, path, strlen(path) + 1);
    char *query = strchr(actor->path, '?');
    if (query != NULL) {
        *query++ = '\0';
    }
    const size_t front = strlen(actor->client->clients->server);
    const bool to_front = strncmp(url, actor->client->clients->server, front) == 0;
    actor->request.listener = to_front ? FEDSERVER_FRONT : FEDSERVER_DEVICES;
    actor->request.path = actor->path;
    actor->request.query = query != NULL ? query : "";
    return FED_OK;
}

static void set_range(sim_actor *actor, const fedclient_range *range) {
    int len = 0;
    if (range == NULL || (range->first == 0 && range->most == 0)) {
        return;
    }
    len = snprintf(actor->range, sizeof actor->range, "bytes=%llu-",
                   (unsigned long long)range->first);
    if (range->most > 0) {
        snprintf(actor->range + len, sizeof actor->range - (size_t)len, "%llu",
                 (unsigned long long)(range->first + range->most - 1));
    }
    actor->request.range = actor->range;
    if (range->if_tag != 0) {
        snprintf(actor->if_range, sizeof actor->if_range, "\"%016llx\"",
                 (unsigned long long)range->if_tag);
        actor->request.if_range = actor->if_range;
    }
}

/** A header without a value is not sent, so it has 0 bytes. */
static uint64_t line_bytes(const char *name, const char *value) {
    return value == NULL || value[0] == '\0' ? 0 : strlen(name) + strlen(": \r\n") + strlen(value);
}

static uint64_t number_bytes(const char *name, uint64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    return line_bytes(name, text);
}

static uint64_t head_bytes(const sim_actor *actor, const fedclient_request *request) {
    const fedserver_request *r = &actor->request;
    uint64_t bytes = strlen(r->method) + strlen("  HTTP/1.1\r\n") + strlen(r->path) +
                     (r->query[0] != '\0' ? 1 + strlen(r->query) : 0);
    bytes += line_bytes("Host", "127.0.0.1:10443");
    bytes += request->bearer != NULL ? line_bytes("Authorization", request->bearer) + 7 : 0;
    bytes += line_bytes("Range", r->range) + line_bytes("If-Range", r->if_range);
    if (request->body != NULL) {
        bytes += number_bytes("Content-Length", request->body->size);
        bytes += request->body->size >= EXPECTED_FROM ? line_bytes("Expect", "100-continue") : 0;
    }
    return bytes + strlen("\r\n");
}

/** Read the body. If reading fails, actor->request has what came before. */
static fed_status read_body(sim_actor *actor, const fedclient_body *body) {
    fed_status status = FED_OK;
    if (body == NULL) {
        return FED_OK;
    }
    if (body->data != NULL) {
        actor->request.body = body->data;
        actor->request.body_len = body->size;
        return FED_OK;
    }
    FED_REQUIRE(fed_writer_reserve(&actor->body, body->size) != NULL, FED_ENOMEM);
    while (actor->body.len < body->size && status == FED_OK) {
        size_t len = 0;
        uint8_t *end = actor->body.data + actor->body.len;
        status = body->read(body->user, end, body->size - actor->body.len, &len);
        status = status == FED_OK && len == 0 ? FED_EINVAL : status;
        actor->body.len += len;
    }
    actor->request.body = actor->body.data;
    actor->request.body_len = actor->body.len;
    return status;
}

/** Remove FED_STARTED from a check-in. Otherwise a resumed run, which opens its clients again,
 * would send other check-ins than a run that was never stopped. */
static fed_status without_started(sim_actor *actor) {
    fed_checkin checkin;
    fed_reader r;
    fed_reader_init(&r, actor->request.body, actor->request.body_len);
    FED_TRY(fed_checkin_read(&r, &checkin));
    checkin.capabilities &= ~(uint32_t)FED_STARTED;
    actor->body.len = 0;
    fed_checkin_write(&actor->body, &checkin);
    actor->request.body = actor->body.data;
    actor->request.body_len = actor->body.len;
    return actor->body.status;
}

static fed_status compose(sim_actor *actor, const fedclient_request *request, fed_error *err) {
    actor->kept.kind = request->kind;
    actor->request = (fedserver_request){.method = request->method, .bearer = request->bearer};
    FED_TRY(split_url(actor, request->url, err));
    set_range(actor, request->range);
    if (actor->request.listener == FEDSERVER_DEVICES) {
        actor->request.fingerprint = actor->fingerprint;
    }
    return FED_OK;
}

/** Advance the client's clock by the time that `bytes` take to the coordinator, including the time
 * of a new connection if there is none. */
static fed_status travel_up(sim_actor *actor, uint64_t bytes, fed_error *err) {
    int64_t at_us = actor->kept.now_us;
    if (!actor->kept.connected || at_us - actor->kept.used_us >= IDLE_US) {
        at_us += sim_link_connect_us(&actor->link);
        actor->kept.traffic.connections++;
    }
    at_us += sim_link_up_us(&actor->link, bytes);
    actor->kept.traffic.requests++;
    actor->kept.traffic.sent_bytes += bytes;
    const int64_t until_us = sim_attendance_until(&actor->attendance, actor->kept.now_us);
    actor->kept.connected = at_us <= until_us;
    sim_actor_move(actor, actor->kept.connected ? at_us : until_us);
    actor->kept.used_us = actor->kept.now_us;
    return actor->kept.connected ? FED_OK
                                 : fed_fail(err, FED_ENET, "the client went away during a request");
}

fed_status sim_answer_send(sim_actor *actor, const fedserver_response *response, int64_t *us) {
    size_t len = 0;
    if (response->body != NULL) {
        (void)fedserver_blob_data(response->body, &len);
    }
    uint64_t bytes = ANSWER_LINES_BYTES + len + line_bytes("Content-Type", response->content_type) +
                     line_bytes("ETag", response->etag) +
                     line_bytes("Content-Range", response->content_range) +
                     number_bytes("Content-Length", len);
    bytes += actor->request.body_len >= EXPECTED_FROM ? CONTINUE_BYTES : 0;
    const int64_t until_us = sim_attendance_until(&actor->attendance, *us);
    const int64_t at_us = *us + sim_link_down_us(&actor->link, bytes);
    actor->kept.traffic.received_bytes += bytes;
    actor->kept.connected = at_us <= until_us;
    *us = actor->kept.connected ? at_us : until_us;
    actor->kept.used_us = *us;
    return actor->kept.connected ? FED_OK : FED_ENET;
}

fed_status sim_answer_wait(const sim_actor *actor, uint32_t ms, fedserver_response *response,
                           fed_error *err) {
    const fed_assignment wait = {
        .action = FED_ACTION_WAIT, .reason = FED_WAIT_FULL, .retry_ms = ms};
    fed_writer body;
    fed_writer_growing(&body);
    fed_assignment_write(&body, actor->request.body[0], &wait);
    *response = (fedserver_response){.status = 200, .body = fedserver_blob_new(&body)};
    return response->body != NULL
               ? FED_OK
               : fed_fail(err, FED_ENOMEM,
                          "out of memory for an answer to a client; use a smaller cohort");
}

static uint64_t number_after(const char *value, char mark, int base) {
    const char *at = strchr(value, mark);
    return at != NULL ? strtoull(at + 1, NULL, base) : 0;
}

static void fill_range(const fedserver_response *response, size_t len, fedclient_range *range) {
    const bool part = response->status == 206;
    range->begin = part ? number_after(response->content_range, ' ', 10) : 0;
    range->total = part ? number_after(response->content_range, '/', 10) : len;
    range->tag = number_after(response->etag, '"', 16);
}

static fed_status take_answer(sim_actor *actor, const fedclient_request *request, int *status,
                              fed_writer *answer, fed_error *err) {
    fedserver_response *response = &actor->answer;
    size_t len = 0;
    const uint8_t *data = response->body != NULL ? fedserver_blob_data(response->body, &len) : NULL;
    if (len > request->answer_limit) {
        return fed_fail(err, FED_ERANGE,
                        "the coordinator's answer is larger than the client's limit");
    }
    if (request->range != NULL && (response->status == 200 || response->status == 206)) {
        fill_range(response, len, request->range);
    }
    if (request->retry_after_s != NULL && response->retry_after_s > 0) {
        *request->retry_after_s = response->retry_after_s;
    }
    if (response->status == 202 && actor->kept.kind == FED_REQUEST_PIECE) {
        fed_reader r;
        fed_reader_init(&r, data, len);
        actor->kept.pieces_there = fed_read_u64(&r);
    }
    if (request->kind == FED_REQUEST_CHECKIN && response->status == 200 && sim_hostile_is(actor)) {
        FED_TRY(sim_hostile_hear(actor));
    }
    *status = response->status;
    (void)fed_writer_reserve(answer, len);
    fed_write_bytes(answer, data, len);
    return FED_OK;
}

/** Enrol before virtual time begins. The clients enrol one after the other, so that the coordinator
 * numbers them in the order of k. */
static fed_status enrol_now(sim_actor *actor, fed_error *err) {
    sim_world *world = actor->world;
    pthread_mutex_lock(&world->clients->mutex);
    while (world->enrolled != actor->client->k) {
        pthread_cond_wait(&world->clients->changed, &world->clients->mutex);
    }
    fed_status status = sim_host_handle(&world->host, &actor->request, 0, &actor->answer, err);
    if (status == FED_OK) {
        status = sim_host_commit(&world->host, err);
    }
    pthread_mutex_unlock(&world->clients->mutex);
    return status;
}

void sim_answer_keep(sim_actor *actor, fedserver_blob *answer) {
    fedserver_blob_free(actor->heard);
    actor->heard = answer != NULL ? fedserver_blob_share(answer) : NULL;
}

/** In a resumed step, return whether this request is a check-in that was answered before the stop.
 * The bodies are not compared: they differ if the client has downloaded a model since. */
static bool was_answered(const sim_actor *actor) {
    return actor->heard != NULL && actor->kept.kind == FED_REQUEST_CHECKIN;
}

static bool is_parked(const sim_actor *actor) {
    const sim_parked *parked = &actor->kept.parked;
    return parked->on && parked->answered && actor->kept.kind == FED_REQUEST_CHECKIN &&
           parked->len == actor->request.body_len &&
           memcmp(parked->body, actor->request.body, parked->len) == 0;
}

uint64_t sim_request_digest(const sim_actor *actor) {
    return fed_digest_bytes(actor->request.body, actor->request.body_len);
}

/** In a resumed run, the client asks once more how much of its upload in pieces has arrived. Give
 * the coordinator's last answer again, at no cost in virtual time. */
static fed_status answer_again(sim_actor *actor, fed_error *err) {
    fed_writer body;
    fed_writer_growing(&body);
    fed_write_u64(&body, actor->kept.pieces_there);
    actor->answer = (fedserver_response){.status = 202, .body = fedserver_blob_new(&body)};
    return actor->answer.body != NULL
               ? FED_OK
               : fed_fail(err, FED_ENOMEM,
                          "out of memory for an answer to client %u; use a smaller cohort",
                          actor->client->k);
}

static fed_status exchange(sim_actor *actor, const fedclient_request *request, fed_error *err) {
    fed_status read = read_body(actor, request->body);
    if (request->kind == FED_REQUEST_CHECKIN) {
        FED_TRY(without_started(actor));
    }
    const bool sends = request->kind == FED_REQUEST_UPDATE || request->kind == FED_REQUEST_PIECE;
    if (sends && read == FED_OK && sim_hostile_is(actor)) {
        FED_TRY(sim_hostile_push(actor, err));
    }
    const uint64_t body_len = actor->request.body_len;
    if (actor->world->direct) {
        FED_TRY(read);
        return enrol_now(actor, err);
    }
    if (is_parked(actor)) {
        actor->answer = actor->parked_answer;
        actor->parked_answer = (fedserver_response){0};
        actor->kept.parked = (sim_parked){0};
        sim_answer_keep(actor, actor->answer.body);
        return FED_OK;
    }
    if (actor->resumes && was_answered(actor)) {
        actor->answer =
            (fedserver_response){.status = 200, .body = fedserver_blob_share(actor->heard)};
        return FED_OK;
    }
    const uint64_t bytes = head_bytes(actor, request) + body_len;
    actor->request.wire_bytes = bytes;
    const bool again = actor->resumes && actor->kept.kind == actor->asked;
    if (again && actor->kept.kind == FED_REQUEST_PIECE &&
        sim_request_digest(actor) != actor->kept.body_digest) {
        return answer_again(actor, err);
    }
    actor->resumes = false;
    if (!again) {
        FED_TRY(travel_up(actor, bytes, err));
    }
    actor->kept.unheard = read != FED_OK;
    fed_status fate = read;
    if (read == FED_OK || (fedserver_body_in_parts(&actor->request) && body_len > 0)) {
        fate = sim_step_ask(actor);
        fate = fate == FED_OK ? read : fate;
    }
    if (fate != FED_OK) {
        actor->kept.connected = false;
        return fed_fail(err, fate, "the client's connection broke during a request");
    }
    return FED_OK;
}

static fed_status inproc_send(void *user, const fedclient_request *request, int *status,
                              fed_writer *answer, fed_error *err) {
    sim_actor *actor = user;
    FED_TRY(compose(actor, request, err));
    fed_writer_growing(&actor->body);
    actor->answer = (fedserver_response){0};
    fed_status result = exchange(actor, request, err);
    if (result == FED_OK) {
        result = take_answer(actor, request, status, answer, err);
    }
    fedserver_blob_free(actor->answer.body);
    actor->answer.body = NULL;
    fed_writer_free(&actor->body);
    return result;
}

static fed_status inproc_identify(void *user, const fed_pem *key, const fed_pem *cert,
                                  fed_error *err) {
    sim_actor *actor = user;
    (void)cert;
    return key != NULL ? fed_key_fingerprint(key, actor->fingerprint, err) : FED_OK;
}

static void inproc_disconnect(void *user) {
    sim_actor *actor = user;
    actor->kept.connected = false;
}

static void inproc_traffic(void *user, fedclient_traffic *traffic) {
    const sim_actor *actor = user;
    *traffic = actor->kept.traffic;
}

void sim_inproc_transport_open(sim_actor *actor) {
    sim_client *client = actor->client;
    client->lossy.inner = (fedclient_transport){.user = actor,
                                                .send = inproc_send,
                                                .identify = inproc_identify,
                                                .disconnect = inproc_disconnect,
                                                .traffic = inproc_traffic};
    sim_lossy_open(&client->lossy, &client->transport);
}
