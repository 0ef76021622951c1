/* A coordinator and a device of the chaos test. The device's link repeats and loses messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chaos.h"
#include "chaos_log.h"
#include "fed/clock.h"
#include "fed/rng.h"
#include "fed_drill.h"
#include "fed_ledger.h"
#include "fedclient/state/record.h"
#include "fedserver/http.h"
#include "tests/support/faults/fault_disk.h"

enum { HOLD_MS = 400, STALE = 4 };

static void note_ports(void *user, uint16_t front, uint16_t devices) {
    chaos_board *board = user;
    board->devices = devices;
    board->front = front;
}

void chaos_coordinator(const chaos_run *run) {
    char directory[400];
    fed_error err = {0};
    fedserver *server = NULL;
    static const atomic_int never;
    const fed_log log = {.write = fed_log_stderr, .level = FED_LOG_INFO};
    const fed_log *talks = getenv("FED_CHAOS_VERBOSE") != NULL ? &log : NULL;
    fault_clock_use(&run->board->clock_ahead_ms);
    snprintf(directory, sizeof directory, "%s/coordinator", run->directory);
    /* A network of the run's own has no other users, so all addresses may be used. */
    const fedserver_http_options options = {.bind = run->far >= 0 ? "0.0.0.0" : "127.0.0.1",
                                            .front_port = run->front_port,
                                            .devices_port = run->devices_port,
                                            .stop = &never,
                                            .ready = note_ports,
                                            .user = run->board};
    fed_status status = fedserver_open(directory, talks, &server, &err);
    if (status == FED_OK) {
        status = fedserver_http_serve(server, &options, talks, &err);
    }
    if (status == FED_EIO && run->board->database_dies != 0) {
        /* The store failed (S2 in docs/durability.md). */
        _exit(CHAOS_AGAIN);
    }
    fprintf(stderr, "chaos: the coordinator ended: %s (%s)\n", err.text, fed_status_name(status));
    _exit(CHAOS_WANTS_A_PERSON);
}

typedef struct saved {
    char url[400];
    uint8_t *body;
    size_t len;
} saved;

typedef struct bad_line {
    const chaos_run *run;
    fedclient_transport inner;
    fed_rng dice;
    int log;
    bool far; /* the device is in the far network and uses no proxy */
    const fedclient_platform *platform;
    saved stale[STALE];
    unsigned kept;
} bad_line;

static bool lucky(bad_line *l, unsigned of_100) {
    return l->run->board->storm != 0 && fed_rng_below(&l->dice, 100) < of_100;
}

static void write_log(const bad_line *l, uint8_t kind, const void *data, size_t len) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_u8(&w, kind);
    fed_write_u32(&w, (uint32_t)len);
    fed_write_bytes(&w, data, len);
    if (write(l->log, w.data, w.len) != (ssize_t)w.len) {
        perror("chaos: can't write a device's log");
        _exit(1);
    }
    fed_writer_free(&w);
}

static void detour(const bad_line *l, const char *url, char *dst, size_t cap) {
    const chaos_board *board = l->run->board;
    const char *port = strrchr(url, ':');
    if (l->run->servers != NULL) {
        snprintf(dst, cap, "%s", url);
        return;
    }
    unsigned long number = strtoul(port + 1, NULL, 10);
    unsigned via = l->far                   ? (unsigned)number
                   : number == board->front ? board->proxy_front
                                            : board->proxy_devices;
    snprintf(dst, cap, "%.*s:%u%s", (int)(port - url), url, via, strchr(port, '/'));
}

typedef struct cursor {
    const saved *s;
    size_t at;
} cursor;

static fed_status read_saved(void *user, void *dst, size_t cap, size_t *len) {
    cursor *c = user;
    *len = c->s->len - c->at < cap ? c->s->len - c->at : cap;
    memcpy(dst, c->s->body + c->at, *len);
    c->at += *len;
    return FED_OK;
}

/** Send an update once more. The coordinator must not count it again, which the final check would
 * notice. An acknowledged update that is still the device's last one must be acknowledged again. */
static void send_again(bad_line *l, const saved *s, uint32_t patience_ms, bool was_counted) {
    cursor c = {.s = s};
    const fedclient_body body = {.user = &c, .size = s->len, .read = read_saved};
    const fedclient_request request = {.method = "POST",
                                       .url = s->url,
                                       .body = &body,
                                       .answer_limit = 4096,
                                       .patience_ms = patience_ms};
    fed_error err = {0};
    fed_writer answer;
    int status = 0;
    fed_writer_growing(&answer);
    fed_status result = l->inner.send(l->inner.user, &request, &status, &answer, &err);
    fed_writer_free(&answer);
    if (result == FED_OK && was_counted && status != 200 && status < 500) {
        fprintf(stderr,
                "chaos: an acknowledged update was sent again, and answered with status %d\n",
                status);
        _exit(CHAOS_WANTS_A_PERSON);
    }
}

static const saved *save(bad_line *l, const char *url, const uint8_t *body, size_t len) {
    saved *s = &l->stale[l->kept++ % STALE];
    free(s->body);
    s->body = malloc(len);
    if (s->body == NULL) {
        _exit(1);
    }
    memcpy(s->body, body, len);
    s->len = len;
    snprintf(s->url, sizeof s->url, "%s", url);
    return s;
}

static void note_place(chaos_board *board, uint32_t round) {
    unsigned newest = board->round;
    if (round > newest && atomic_compare_exchange_strong(&board->round, &newest, round)) {
        board->given = board->counted = 0;
    }
    board->given += round == board->round;
}

static void note_checkin(const bad_line *l, const uint8_t *body, size_t len,
                         const fed_writer *answer) {
    fed_checkin checkin;
    fed_assignment a;
    fed_reader r;
    fed_reader_init(&r, body, len);
    if (fed_checkin_read(&r, &checkin) != FED_OK) {
        return;
    }
    fed_reader_init(&r, answer->data, answer->len);
    if (fed_assignment_read(&r, checkin.protocol, &a) == FED_OK && a.action != FED_ACTION_WAIT) {
        fed_writer w;
        fed_writer_growing(&w);
        fed_write_u64(&w, a.task.id);
        fed_write_u32(&w, a.version);
        fed_write_u64(&w, a.digest);
        write_log(l, CHAOS_LOG_VERSION, w.data, w.len);
        fed_writer_free(&w);
        note_place(l->run->board, a.round);
    }
}

static void note_counted(const bad_line *l, const uint8_t *update, size_t len) {
    fed_update head = {0};
    fed_reader r;
    fed_reader_init(&r, update, len);
    write_log(l, CHAOS_LOG_UPDATE, update, len);
    l->run->board->acknowledged++;
    l->run->board->counted +=
        fed_update_read(&r, &head) == FED_OK && head.round == l->run->board->round;
}

/** Log the stored update as acknowledged, because its last piece was. It is in the device's first
 * slot, because a device that sends pieces takes part in one task only. */
static void note_pieces(const bad_line *l) {
    fedclient_pending_head head;
    fedclient_record pending = {0};
    fed_error err = {0};
    size_t len = 0;
    if (fedclient_pending_load(l->platform, 0, &head, &pending, &err) != FED_OK) {
        fprintf(stderr, "chaos: can't read the stored update: %s\n", err.text);
        _exit(CHAOS_WANTS_A_PERSON);
    }
    const uint8_t *update = fedclient_record_payload(&pending, &len);
    note_counted(l, update, len);
    fedclient_record_free(&pending);
}

static fed_status send_body(bad_line *l, const fedclient_request *request, const saved *s,
                            int *status, fed_writer *answer, fed_error *err) {
    cursor c = {.s = s};
    const fedclient_body body = {.user = &c, .size = s->len, .read = read_saved};
    fedclient_request copy = *request;
    copy.url = s->url;
    copy.body = &body;
    FED_TRY(l->inner.send(l->inner.user, &copy, status, answer, err));
    bool update = strstr(s->url, "/v1/update") != NULL;
    if (update && *status == 200) {
        note_counted(l, s->body, s->len);
    } else if (*status == 200 && strstr(s->url, "/v1/piece") != NULL) {
        note_pieces(l);
    } else if (*status == 200 && strstr(s->url, "/v1/checkin") != NULL) {
        note_checkin(l, s->body, s->len, answer);
    }
    if (!update) {
        return FED_OK;
    }
    if (lucky(l, 15)) {
        l->run->board->repeated++;
        send_again(l, s, request->patience_ms, *status == 200);
    }
    save(l, s->url, s->body, s->len);
    if (lucky(l, 5)) {
        l->run->board->lost_answers++;
        return fed_fail(err, FED_ENET, "the answer was lost (planned by the test)");
    }
    return FED_OK;
}

/** Send an old update again, at the address that the device uses now. */
static void send_stale(bad_line *l, const char *url, uint32_t patience_ms) {
    const saved *old = &l->stale[fed_rng_below(&l->dice, l->kept < STALE ? l->kept : STALE)];
    saved now = *old;
    snprintf(now.url, sizeof now.url, "%.*s%s", (int)(strrchr(url, ':') - url), url,
             strrchr(old->url, ':'));
    l->run->board->stale++;
    send_again(l, &now, patience_ms, false);
}

static fed_status line_send(void *user, const fedclient_request *request, int *status,
                            fed_writer *answer, fed_error *err) {
    bad_line *l = user;
    saved s;
    detour(l, request->url, s.url, sizeof s.url);
    if (l->kept > 0 && lucky(l, 10)) {
        send_stale(l, s.url, request->patience_ms);
    }
    if (request->body == NULL) {
        fedclient_request copy = *request;
        copy.url = s.url;
        return l->inner.send(l->inner.user, &copy, status, answer, err);
    }
    fed_writer w;
    fed_writer_growing(&w);
    fed_status result = fed_drill_read_body(request->body, &w);
    s.body = w.data;
    s.len = w.len;
    if (result == FED_OK) {
        result = send_body(l, request, &s, status, answer, err);
    }
    fed_writer_free(&w);
    return result;
}

static fed_status line_identify(void *user, const fed_pem *key, const fed_pem *cert,
                                fed_error *err) {
    bad_line *l = user;
    return l->inner.identify(l->inner.user, key, cert, err);
}

static void line_disconnect(void *user) {
    bad_line *l = user;
    l->inner.disconnect(l->inner.user);
}

static void line_traffic(void *user, fedclient_traffic *traffic) {
    bad_line *l = user;
    l->inner.traffic(l->inner.user, traffic);
}

typedef struct trainer {
    const bad_line *line;
    fed_drill drill;
} trainer;

/** Train, after logging the number and task. The training is not durable yet, so a later one may
 * get the same number. */
static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    trainer *t = user;
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_u64(&w, round->number);
    fed_write_u64(&w, round->task->id);
    write_log(t->line, CHAOS_LOG_TRAINING, w.data, w.len);
    fed_writer_free(&w);
    fed_sleep_ms(t->line->run->train_ms);
    return fed_drill_train(&t->drill, round, err);
}

static fed_status live(const chaos_run *run, fedclient *client, const char *token, fed_error *err) {
    if (!fedclient_enrolled(client)) {
        FED_TRY(fedclient_enrol(client, token, err));
        run->board->enrolled++;
    }
    while (run->board->storm == 0 && run->board->over == 0) {
        fed_sleep_ms(200);
    }
    for (;;) {
        fedclient_event event = {0};
        /* Read this before the step. An answer from before the task's end says "no task" while the
         * task is paused. */
        const bool task_over = run->board->finished > 0;
        FED_TRY(fedclient_step(client, &event, err));
        bool waits = event.outcome == FEDCLIENT_WAITED;
        bool never_took_part = waits && event.reason == FED_WAIT_NO_TASK && task_over;
        /* A device with several slots goes on: it gets the last model of each task. */
        bool done = event.outcome == FEDCLIENT_FINISHED && run->slots <= 1;
        if (done || never_took_part || (waits && event.reason == FED_WAIT_FINISHED)) {
            run->board->finished++;
            return FED_OK;
        }
        fed_sleep_ms(event.wait_ms < run->wait_most_ms ? event.wait_ms : run->wait_most_ms);
    }
}

static fed_status open_and_live(const chaos_run *run, unsigned k, bad_line *l, const char *token,
                                fed_error *err) {
    char directory[400], server[64];
    fedclient_platform platform = {0};
    fedclient *client = NULL;
    snprintf(directory, sizeof directory, "%s/device%u", run->directory, k);
    snprintf(server, sizeof server, "https://%s:%u", l->far ? CHAOS_NEAR : "127.0.0.1",
             (unsigned)run->board->front);
    FED_TRY(fedclient_platform_posix_open(directory, &platform, err));
    const fedclient_transport_options line = {.ca_pem = run->ca, .patience_ms = run->patience_ms};
    FED_TRY(fedclient_transport_open(NULL, &line, &l->inner, err));
    fedclient_transport transport = {.user = l,
                                     .send = line_send,
                                     .identify = line_identify,
                                     .disconnect = line_disconnect,
                                     .traffic = line_traffic};
    trainer trains = {.line = l, .drill = {.client = k}};
    const fed_log log = {.write = fed_log_stderr, .level = FED_LOG_INFO};
    l->platform = &platform;
    const fedclient_options options = {.server = run->servers != NULL ? run->servers : server,
                                       .piece_bytes = run->piece_bytes,
                                       .platform = &platform,
                                       .transport = &transport,
                                       .log = getenv("FED_CHAOS_VERBOSE") != NULL ? &log : NULL,
                                       .hold_ms = run->hold_ms != 0 ? run->hold_ms : HOLD_MS,
                                       .train = train,
                                       .slots = run->slots,
                                       .user = &trains};
    FED_TRY(fedclient_open(&options, &client, err));
    return live(run, client, token, err);
}

void chaos_device(const chaos_run *run, unsigned k, unsigned life,
                  const char token[FEDSERVER_TOKEN]) {
    char path[400];
    fed_error err = {0};
    bad_line l = {.run = run, .far = chaos_net_is_far(run, k)};
    if (l.far) {
        chaos_net_enter(run);
    }
    fault_clock_use(&run->board->clock_ahead_ms);
    fed_rng_init(&l.dice, run->seed, 1000 + k, life);
    snprintf(path, sizeof path, "%s/device%u.log", run->directory, k);
    l.log = chaos_log_open(path);
    fed_status status = open_and_live(run, k, &l, token, &err);
    if (status == FED_OK) {
        _exit(0);
    }
    /* The process ends on these errors and is started again. During enrolment its link may fail, or
     * fedclient_enrol finds the coordinator too slow or busy. Links that often end within the
     * handshake can also look like a refused certificate. */
    bool again =
        status == FED_ENET || status == FED_ETIMEOUT || status == FED_EBUSY || status == FED_EAUTH;
    if (!again || getenv("FED_CHAOS_VERBOSE") != NULL) {
        fprintf(stderr, "chaos: device %u failed, and can't just start again: %s (%s)\n", k,
                err.text, fed_status_name(status));
    }
    _exit(again ? CHAOS_AGAIN : CHAOS_WANTS_A_PERSON);
}
