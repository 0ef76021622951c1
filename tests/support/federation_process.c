/* The processes of a small federation: a coordinator without a network, and a device. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed/hash.h"
#include "fed_drill.h"
#include "federation.h"
#include "fedserver/operator.h"
#include "fedserver/private_helper.h"
#include "fedserver/rounds/task_memory.h"
#include "fedserver/server.h"

enum { GIVES_UP = 3 };

bool federation_send(int fd, const fed_writer *w) {
    return send(fd, w->data, w->len, MSG_NOSIGNAL) == (ssize_t)w->len;
}

bool federation_receive(int fd, fed_writer *w) {
    enum { MOST = 128 * 1024 };
    w->len = 0;
    uint8_t *room = fed_writer_reserve(w, MOST);
    ssize_t got = room != NULL ? recv(fd, room, MOST, 0) : -1;
    if (got <= 0) {
        return false;
    }
    fed_writer_advance(w, (size_t)got);
    return true;
}

static _Noreturn void give_up(const fed_error *err) {
    if (getenv("FED_SWEEP_VERBOSE") != NULL) {
        fprintf(stderr, "process %d of the federation ends with an error: %s\n", (int)getpid(),
                err->text);
    }
    _exit(GIVES_UP);
}

static void must(fed_status status, const fed_error *err) {
    if (status != FED_OK) {
        give_up(err);
    }
}

typedef struct asked {
    char method[8], path[64], query[256], bearer[256], range[64], if_range[32];
    uint8_t fingerprint[FED_SHA256_SIZE];
    fedserver_request request;
} asked;

static void read_request(fed_reader *r, asked *a) {
    a->request = (fedserver_request){
        .listener = fed_read_u8(r) != 0 ? FEDSERVER_FRONT : FEDSERVER_DEVICES, .loopback = true};
    bool named = fed_read_u8(r) != 0;
    memcpy(a->fingerprint, fed_read_bytes(r, FED_SHA256_SIZE), FED_SHA256_SIZE);
    fed_read_str(r, a->method, sizeof a->method);
    fed_read_str(r, a->path, sizeof a->path);
    fed_read_str(r, a->query, sizeof a->query);
    fed_read_str(r, a->bearer, sizeof a->bearer);
    fed_read_str(r, a->range, sizeof a->range);
    fed_read_str(r, a->if_range, sizeof a->if_range);
    a->request.method = a->method;
    a->request.path = a->path;
    a->request.query = a->query;
    a->request.bearer = a->bearer[0] != '\0' ? a->bearer : NULL;
    a->request.range = a->range[0] != '\0' ? a->range : NULL;
    a->request.if_range = a->if_range[0] != '\0' ? a->if_range : NULL;
    a->request.fingerprint = named ? a->fingerprint : NULL;
    a->request.body_len = fed_reader_left(r);
    a->request.body = fed_read_bytes(r, a->request.body_len);
}

static void answer(int fd, fedserver_response *response) {
    fed_writer out;
    fed_writer_growing(&out);
    fed_write_u32(&out, (uint32_t)response->status);
    fed_write_str(&out, response->etag);
    fed_write_str(&out, response->content_range);
    size_t len = 0;
    const uint8_t *body = response->body != NULL ? fedserver_blob_data(response->body, &len) : NULL;
    fed_write_bytes(&out, body, len);
    fedserver_blob_free(response->body);
    (void)federation_send(fd, &out);
    fed_writer_free(&out);
}

/* A round that waits for its helper goes on with the helper's reply. */
static const fedserver_training *closing_task(const fedserver *server) {
    for (size_t k = 0; k < server->rounds.task_count; k++) {
        const fedserver_training *t = server->rounds.tasks[k];
        if (t->round.phase == FEDSERVER_ROUND_CLOSING &&
            (t->closing != NULL || t->task.helper[0] == '\0')) {
            return t;
        }
    }
    return NULL;
}

static void finish_closing(fedserver *server, int64_t now_ms) {
    fed_error err = {0};
    int64_t next_ms = 0;
    for (const fedserver_training *t = NULL; (t = closing_task(server)) != NULL;) {
        struct pollfd bell = {.fd = fedserver_wake_fd(server), .events = POLLIN};
        (void)poll(&bell, 1, t->closing != NULL ? 1000 : 0);
        must(fedserver_begin(server, &err), &err);
        must(fedserver_tick(server, now_ms, &next_ms, &err), &err);
        must(fedserver_commit(server, &err), &err);
    }
}

static void serve(const federation *f, fedserver *server, int fd, fed_reader *r) {
    fed_error err = {0};
    asked a;
    fedserver_response response;
    int64_t now_ms = (int64_t)fed_read_u64(r), next_ms = 0;
    const bool closing = closing_task(server) != NULL;
    read_request(r, &a);
    must(fedserver_begin(server, &err), &err);
    must(fedserver_handle(server, &a.request, now_ms, &response, &err), &err);
    if (f->setup->acks_early) {
        answer(fd, &response);
    }
    must(fedserver_tick(server, now_ms, &next_ms, &err), &err);
    must(fedserver_commit(server, &err), &err);
    if (!f->setup->acks_early) {
        answer(fd, &response);
    }
    if (closing) {
        finish_closing(server, now_ms);
    }
}

static uint64_t memory_for_one(fedserver *server) {
    fed_error err = {0};
    fedserver_task task;
    uint64_t need = 0;
    must(server->store->task_find(server->db, FEDSERVER_PICK_ID, 1, &task, &err), &err);
    must(fedserver_memory_find(server->store, server->db, &task, &need, &err), &err);
    return need + need / 2;
}

void federation_coordinator(const federation *f, int fd) {
    char directory[500];
    fed_error err = {0};
    fedserver *server = NULL;
    snprintf(directory, sizeof directory, "%s/coordinator", f->directory);
    fault_disk_watch(directory, f->process[FEDERATION_COORDINATOR].plan);
    must(fedserver_upgrade(directory, &err), &err);
    must(fedserver_open(directory, NULL, &server, &err), &err);
    const fedserver_setup setup = {
        .apart_values = f->setup->apart ? 1 : 0,
        .task_memory = f->setup->job == FEDERATION_QUEUE ? memory_for_one(server) : 0};
    fedserver_configure(server, &setup);
    fedserver_ports(server, 8443, 8444);
    fed_writer in;
    fed_writer_growing(&in);
    while (federation_receive(fd, &in)) {
        fed_reader r;
        fed_reader_init(&r, in.data, in.len);
        if (fed_read_u8(&r) == FEDERATION_QUIT) {
            break;
        }
        serve(f, server, fd, &r);
    }
    fedserver_close(server);
    _exit(0);
}

typedef struct line {
    int fd;
    bool named;
    uint8_t fingerprint[FED_SHA256_SIZE];
} line;

static fed_status identify(void *user, const fed_pem *key, const fed_pem *cert, fed_error *err) {
    line *l = user;
    (void)key;
    l->named = cert != NULL;
    return cert != NULL ? fed_cert_key_fingerprint(cert->text, l->fingerprint, err) : FED_OK;
}

static void no_connection(void *user) {
    (void)user;
}

static void no_traffic(void *user, fedclient_traffic *traffic) {
    (void)user;
    *traffic = (fedclient_traffic){0};
}

static void write_range(fed_writer *w, const fedclient_range *range) {
    char bytes[64] = "", last[24] = "", tag[32] = "";
    if (range != NULL && (range->first > 0 || range->most > 0)) {
        if (range->most > 0) {
            snprintf(last, sizeof last, "%" PRIu64, range->first + range->most - 1);
        }
        snprintf(bytes, sizeof bytes, "bytes=%" PRIu64 "-%s", range->first, last);
        if (range->if_tag != 0) {
            snprintf(tag, sizeof tag, "\"%016" PRIx64 "\"", range->if_tag);
        }
    }
    fed_write_str(w, bytes);
    fed_write_str(w, tag);
}

static void read_range(fed_reader *r, fedclient_range *range) {
    char tag[32], bytes[80];
    uint64_t end = 0;
    fed_read_str(r, tag, sizeof tag);
    fed_read_str(r, bytes, sizeof bytes);
    if (range == NULL) {
        return;
    }
    range->tag = tag[0] == '"' ? strtoull(tag + 1, NULL, 16) : 0;
    range->begin = 0;
    if (sscanf(bytes, "bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64, &range->begin, &end,
               &range->total) != 3) {
        range->total = fed_reader_left(r);
    }
}

static fed_status write_request(const line *l, const fedclient_request *request, fed_writer *w) {
    char path[256];
    const char *port = strrchr(request->url, ':');
    FED_REQUIRE(port != NULL && strchr(port, '/') != NULL, FED_EINVAL);
    snprintf(path, sizeof path, "%s", strchr(port, '/'));
    char *query = strchr(path, '?');
    if (query != NULL) {
        *query++ = '\0';
    }
    fed_write_u8(w, FEDERATION_ASK);
    fed_write_u8(w, strncmp(port, ":8443", 5) == 0);
    fed_write_u8(w, l->named);
    fed_write_bytes(w, l->fingerprint, sizeof l->fingerprint);
    fed_write_str(w, request->method);
    fed_write_str(w, path);
    fed_write_str(w, query != NULL ? query : "");
    fed_write_str(w, request->bearer != NULL ? request->bearer : "");
    write_range(w, request->range);
    return request->body != NULL ? fed_drill_read_body(request->body, w) : w->status;
}

/** Send a request to the driver. The answer: u8 arrived, u32 status, body. */
static fed_status ask(void *user, const fedclient_request *request, int *status, fed_writer *body,
                      fed_error *err) {
    const line *l = user;
    fed_writer w;
    fed_writer_growing(&w);
    fed_status result = write_request(l, request, &w);
    if (result == FED_OK && (!federation_send(l->fd, &w) || !federation_receive(l->fd, &w))) {
        _exit(0);
    }
    fed_reader r;
    fed_reader_init(&r, w.data, w.len);
    if (result == FED_OK && fed_read_u8(&r) == 0) {
        result = fed_fail(err, FED_ENET, "the coordinator did not answer");
    }
    if (result == FED_OK) {
        *status = (int)fed_read_u32(&r);
        read_range(&r, request->range);
        fed_write_bytes(body, w.data + r.pos, fed_reader_left(&r));
    }
    fed_writer_free(&w);
    return result;
}

static void report(int fd, fed_status status, const fedclient_event *event, const fed_error *err) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_u8(&w, FEDERATION_DONE);
    fed_write_u8(&w, (uint8_t)status);
    fed_write_u8(&w, event->outcome == FEDCLIENT_FINISHED || (event->outcome == FEDCLIENT_WAITED &&
                                                              event->reason == FED_WAIT_FINISHED));
    fed_write_u8(&w, event->outcome == FEDCLIENT_WAITED && event->reason == FED_WAIT_NO_TASK);
    fed_write_u32(&w, event->wait_ms);
    fed_write_str(&w, err->text);
    (void)federation_send(fd, &w);
    fed_writer_free(&w);
}

static fed_status obey(fedclient *client, uint8_t what, fed_reader *order, fedclient_event *event,
                       fed_error *err) {
    char token[FEDSERVER_TOKEN];
    fed_read_str(order, token, sizeof token);
    if (!fedclient_enrolled(client)) {
        FED_TRY(fedclient_enrol(client, token, err));
    }
    return what == FEDERATION_ENROL ? FED_OK : fedclient_step(client, event, err);
}

void federation_device(const federation *f, int fd, unsigned k) {
    char directory[500];
    fed_error err = {0};
    fedclient_platform platform;
    snprintf(directory, sizeof directory, "%s/device%u", f->directory, k);
    fault_disk_watch(directory, f->process[k + 1].plan);
    must(fedclient_platform_posix_open(directory, &platform, &err), &err);
    line l = {.fd = fd};
    fedclient_transport transport = {.user = &l,
                                     .send = ask,
                                     .identify = identify,
                                     .disconnect = no_connection,
                                     .traffic = no_traffic};
    fed_drill drill = {.client = k};
    const fedclient_options options = {.server = "https://coordinator:8443",
                                       .platform = &platform,
                                       .transport = &transport,
                                       .train = fed_drill_train,
                                       .piece_bytes = 16384,
                                       .user = &drill};
    fedclient *client = NULL;
    must(fedclient_open(&options, &client, &err), &err);
    fed_writer in;
    fed_writer_growing(&in);
    while (federation_receive(fd, &in)) {
        fed_reader r;
        fed_reader_init(&r, in.data, in.len);
        uint8_t what = fed_read_u8(&r);
        if (what == FEDERATION_QUIT) {
            break;
        }
        fedclient_event event = {0};
        fed_status status = obey(client, what, &r, &event, &err);
        report(fd, status, &event, &err);
        if (status != FED_OK) {
            give_up(&err);
        }
    }
    fedclient_close(client);
    _exit(0);
}

enum { REPLY_PIECE = 150, OPENED_MS = 10, IDLE_MS = 300 };

/* Send a reply in small pieces, so that the helper may die between two. */
static fed_status send_reply(fedclient *client, const fedserver_reply *reply, fed_error *err) {
    fed_writer whole, piece, answer;
    fed_piece head = {.task = reply->task, .round = reply->round, .lease = 1};
    int status = 202;
    char word[32];
    fed_status sent = FED_OK;
    fed_writer_growing(&whole);
    fed_writer_growing(&piece);
    fed_writer_growing(&answer);
    fedserver_reply_write(&whole, reply);
    head.digest = fed_digest_bytes(whole.data, whole.len);
    head.total = whole.len;
    while (sent == FED_OK && status == 202) {
        const size_t left = whole.len - (size_t)head.offset;
        piece.len = answer.len = 0;
        fed_piece_write(&piece, &head);
        fed_write_bytes(&piece, whole.data + head.offset, left < REPLY_PIECE ? left : REPLY_PIECE);
        sent = fedclient_post(client, "/v1/opening", piece.data, piece.len, 0, &status, word,
                              &answer, err);
        fed_reader r;
        fed_reader_init(&r, answer.data, answer.len);
        head.offset = sent == FED_OK && status == 202 ? fed_read_u64(&r) : 0;
    }
    fed_writer_free(&whole);
    fed_writer_free(&piece);
    fed_writer_free(&answer);
    return sent;
}

static fed_status open_round(fedserver_helper *helper, fedclient *client, const fed_writer *body,
                             uint8_t *errs, fed_error *err) {
    fedserver_inquiry inquiry;
    fedserver_reply reply;
    fed_reader r;
    fed_reader_init(&r, body->data, body->len);
    FED_TRY(fedserver_inquiry_read(&r, &inquiry));
    fed_status status = fedserver_helper_answer(helper, &inquiry, &reply, err);
    fedserver_inquiry_free(&inquiry);
    if (status == FED_OK && errs != NULL && reply.fields_len > 0) {
        reply.fields[0] ^= (*errs)++;
    }
    if (status == FED_OK) {
        status = send_reply(client, &reply, err);
        fedserver_reply_free(&reply);
    }
    return status;
}

/* Ask once what is owed, as commands/open_sums.c does. */
static fed_status help(fedserver_helper *helper, fedclient *client, uint8_t *errs,
                       fedclient_event *event, fed_error *err) {
    uint8_t text[sizeof(uint32_t)];
    char word[32];
    int status = 0;
    fed_writer body, answer;
    fed_writer_fixed(&body, text, sizeof text);
    fed_write_u32(&body, 0);
    fed_writer_growing(&answer);
    fed_status posted =
        fedclient_post(client, "/v1/helper", text, body.len, 0, &status, word, &answer, err);
    event->wait_ms = status == 200 ? OPENED_MS : IDLE_MS;
    if (posted == FED_OK && status == 200) {
        posted = open_round(helper, client, &answer, errs, err);
    }
    fed_writer_free(&answer);
    return posted;
}

void federation_helper(const federation *f, int fd) {
    char directory[500], path[520];
    fed_pem key;
    fed_error err = {0};
    fedclient_platform platform;
    fedclient *client = NULL;
    fedserver_helper *helper = NULL;
    fed_drill drill = {0}; /* a helper never trains */
    uint8_t replies = 0;
    snprintf(directory, sizeof directory, "%s/helper", f->directory);
    snprintf(path, sizeof path, "%s/helper.db", directory);
    fault_disk_watch(directory, f->process[FEDERATION_HELPER].plan);
    must(fed_key_of(f->setup->helper_secret, &key, &err), &err);
    must(fedclient_platform_posix_open(directory, &platform, &err), &err);
    fedserver_helper_options state = {.path = path, .least = 2};
    memcpy(state.secret, f->setup->helper_secret, sizeof state.secret);
    must(fedserver_helper_open(&state, &helper, &err), &err);
    line l = {.fd = fd};
    fedclient_transport transport = {.user = &l,
                                     .send = ask,
                                     .identify = identify,
                                     .disconnect = no_connection,
                                     .traffic = no_traffic};
    const fedclient_options options = {.server = "https://coordinator:8443",
                                       .platform = &platform,
                                       .transport = &transport,
                                       .key = &key,
                                       .train = fed_drill_train,
                                       .user = &drill};
    must(fedclient_open(&options, &client, &err), &err);
    fed_writer in;
    fed_writer_growing(&in);
    while (federation_receive(fd, &in)) {
        fed_reader r;
        fed_reader_init(&r, in.data, in.len);
        const uint8_t what = fed_read_u8(&r);
        if (what == FEDERATION_QUIT) {
            break;
        }
        fedclient_event event = {0};
        char token[FEDSERVER_TOKEN];
        fed_read_str(&r, token, sizeof token);
        fed_status status =
            fedclient_enrolled(client) ? FED_OK : fedclient_enrol(client, token, &err);
        if (status == FED_OK && what == FEDERATION_STEP) {
            status = help(helper, client, f->setup->helper_errs ? &replies : NULL, &event, &err);
        }
        report(fd, status, &event, &err);
        if (status != FED_OK) {
            give_up(&err);
        }
    }
    fedclient_close(client);
    fedserver_helper_close(helper);
    _exit(0);
}
