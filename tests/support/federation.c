/* The driver of a small federation: it picks the next process, forwards messages, and restarts
 * processes that died. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "federation.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed/rng.h"
#include "fed_test.h"
#include "fedclient/state/record.h"

enum { TURN_MS = 10, TURNS_MOST = 1500, STORM_KILLS = 30, SILENCE_S = 20 };

void federation_break(federation *f, const char *format, ...) {
    if (f->result->broken[0] != '\0') {
        return;
    }
    va_list rest;
    va_start(rest, format);
    vsnprintf(f->result->broken, sizeof f->result->broken, format, rest);
    va_end(rest);
}

static void copy_directory(const char *from, const char *to) {
    assert_int_equal(mkdir(to, 0700), 0);
    DIR *dir = opendir(from);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        char source[700], target[700];
        struct stat info;
        snprintf(source, sizeof source, "%s/%s", from, e->d_name);
        snprintf(target, sizeof target, "%s/%s", to, e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        assert_int_equal(stat(source, &info), 0);
        if (S_ISDIR(info.st_mode)) {
            copy_directory(source, target);
            continue;
        }
        fed_error err = {0};
        uint8_t *data = NULL;
        size_t len = 0;
        assert_fed_ok_err(fed_file_read(source, SIZE_MAX / 2, &data, &len, &err));
        fed_test_put(to, e->d_name, data, len);
        free(data);
    }
    closedir(dir);
}

void federation_plan_life(const federation *f, unsigned who) {
    const federation_fault *fault = f->fault;
    const federation_process *p = &f->process[who];
    fault_plan *plan = p->plan;
    memset(plan, 0, sizeof *plan);
    plan->seed = fault->at[0] * 31 + p->lives;
    plan->lie = fault->lie;
    if (fault->storm != 0 && f->result->kills < STORM_KILLS) {
        fed_rng rng;
        fed_rng_init(&rng, fault->storm, who, p->lives);
        plan->kind = (fault_kind)(FAULT_KILL + fed_rng_below(&rng, FAULT_POWER_TORN));
        plan->at = 1 + fed_rng_below(&rng, 80);
    } else if (fault->process == who && p->lives < FEDERATION_LIVES && fault->at[p->lives] != 0) {
        plan->kind = fault->kind;
        plan->at = fault->at[p->lives];
    }
}

static void start(federation *f, unsigned who) {
    federation_process *p = &f->process[who];
    int ends[2];
    federation_plan_life(f, who);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    fflush(NULL);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        fed_test_die_with_parent();
        for (unsigned k = 0; k < FEDERATION_PROCESSES; k++) {
            if (k != who && f->process[k].pid > 0) {
                close(f->process[k].fd);
            }
        }
        close(ends[0]);
        if (who == FEDERATION_COORDINATOR) {
            federation_coordinator(f, ends[1]);
        }
        if (who == FEDERATION_HELPER) {
            federation_helper(f, ends[1]);
        }
        federation_device(f, ends[1], who - 1);
    }
    close(ends[1]);
    const struct timeval patience = {.tv_sec = SILENCE_S};
    assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    p->fd = ends[0];
}

static int await_end(federation *f, unsigned who) {
    pid_t pid = f->process[who].pid;
    int how = 0;
    const int64_t limit_ms = fed_clock_monotonic_ms() + 1000 * (int64_t)SILENCE_S;
    while (waitpid(pid, &how, WNOHANG) == 0) {
        if (fed_clock_monotonic_ms() > limit_ms) {
            federation_break(f, "D6: process %u does not end", who);
            (void)kill(pid, SIGKILL);
        }
        const struct timespec nap = {.tv_nsec = 100000};
        nanosleep(&nap, NULL);
    }
    return how;
}

void federation_bury(federation *f, unsigned who) {
    federation_process *p = &f->process[who];
    close(p->fd);
    int how = await_end(f, who);
    p->pid = 0;
    f->result->kills += WIFSIGNALED(how) ? 1U : 0U;
    bool fired = p->plan->fired != 0;
    if (fired && !f->result->fired) {
        f->result->fired = true;
        snprintf(f->result->what, sizeof f->result->what, "%s", p->plan->what);
    }
    if (p->lives++ == 0) {
        f->result->calls[who] = p->plan->calls;
    }
    bool disk_failed = fired && (p->plan->kind == FAULT_IO || p->plan->kind == FAULT_FULL);
    bool right = WIFSIGNALED(how) ? WTERMSIG(how) == SIGKILL
                                  : WEXITSTATUS(how) == 0 || disk_failed || p->excused;
    p->excused = false;
    if (!right) {
        federation_break(f,
                         "D6: process %u ended with %s %d in life %u, without a fault of its disk",
                         who, WIFSIGNALED(how) ? "signal" : "status",
                         WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how), p->lives);
    }
}

void federation_quit(federation *f, unsigned who) {
    if (f->process[who].pid == 0) {
        return;
    }
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_u8(&w, FEDERATION_QUIT);
    (void)federation_send(f->process[who].fd, &w);
    (void)federation_receive(f->process[who].fd, &w);
    fed_writer_free(&w);
    federation_bury(f, who);
}

void federation_kill_all(federation *f) {
    for (unsigned who = 0; who < FEDERATION_PROCESSES; who++) {
        if (f->process[who].pid > 0) {
            (void)kill(f->process[who].pid, SIGKILL);
            federation_bury(f, who);
        }
    }
}

typedef struct parcel {
    char method[8], path[64], query[256], bearer[256], range[64], if_range[32];
    const uint8_t *body;
    size_t len;
} parcel;

static void open_parcel(const fed_writer *request, parcel *p) {
    fed_reader r;
    fed_reader_init(&r, request->data, request->len);
    (void)fed_read_bytes(&r, 3 + FED_SHA256_SIZE);
    fed_read_str(&r, p->method, sizeof p->method);
    fed_read_str(&r, p->path, sizeof p->path);
    fed_read_str(&r, p->query, sizeof p->query);
    fed_read_str(&r, p->bearer, sizeof p->bearer);
    fed_read_str(&r, p->range, sizeof p->range);
    fed_read_str(&r, p->if_range, sizeof p->if_range);
    p->len = fed_reader_left(&r);
    p->body = fed_read_bytes(&r, p->len);
}

/* S19: a round has one clip, whoever asks, and whoever has died in between. */
static void note_clip(federation *f, const fed_assignment *a) {
    float *clip = a->round < FEDERATION_VERSIONS ? &f->clip[a->round] : NULL;
    if (clip != NULL && *clip != 0 && *clip != a->privacy.clip) {
        federation_break(f, "S19: round %u has the clip %g, and had %g before", a->round,
                         (double)a->privacy.clip, (double)*clip);
    } else if (clip != NULL) {
        *clip = a->privacy.clip;
    }
}

/** Check D5 of docs/durability.md: a version has the same digest for all devices. */
static void note_assignment(federation *f, unsigned device, const parcel *asked,
                            fed_reader *answer) {
    fed_checkin checkin;
    fed_assignment a;
    fed_reader r;
    fed_reader_init(&r, asked->body, asked->len);
    if (fed_checkin_read(&r, &checkin) != FED_OK ||
        fed_assignment_read(answer, checkin.protocol, &a) != FED_OK ||
        a.action == FED_ACTION_WAIT) {
        return;
    }
    federation_report_version(f, device, a.version, a.digest);
    note_clip(f, &a);
    if (a.version >= FEDERATION_VERSIONS) {
        federation_break(f, "D6: version %u was announced, but the task has fewer rounds",
                         a.version);
    } else if (f->digest[a.version] != 0 && f->digest[a.version] != a.digest) {
        federation_break(f, "D5: version %u was announced with another digest before", a.version);
    } else {
        f->digest[a.version] = a.digest;
    }
}

static uint64_t lease_of(const uint8_t *update, size_t len) {
    fed_update head = {0};
    fed_reader r;
    fed_reader_init(&r, update, len);
    return fed_update_read(&r, &head) == FED_OK ? head.lease : 0;
}

static uint8_t *read_pending(const federation *f, unsigned device, size_t *len) {
    char path[500];
    fed_error err = {0};
    uint8_t *record = NULL;
    snprintf(path, sizeof path, "%s/device%u/pending", f->directory, device);
    assert_fed_ok_err(fed_file_read(path, SIZE_MAX / 2, &record, len, &err));
    *len -= FEDCLIENT_RECORD_HEAD;
    memmove(record, record + FEDCLIENT_RECORD_HEAD, *len);
    return record;
}

static void note_answer(federation *f, unsigned device, const fed_writer *request,
                        const fed_writer *answer) {
    parcel p;
    fed_reader r;
    fed_error err = {0};
    open_parcel(request, &p);
    fed_reader_init(&r, answer->data, answer->len);
    uint32_t status = fed_read_u32(&r);
    f->result->refused += status == 409 ? 1U : 0U;
    if (status != 200) {
        return;
    }
    char header[80];
    fed_read_str(&r, header, sizeof header);
    fed_read_str(&r, header, sizeof header);
    bool piece = strcmp(p.path, "/v1/piece") == 0;
    uint8_t *whole = piece ? read_pending(f, device, &p.len) : NULL;
    const uint8_t *update = piece ? whole : p.body;
    if (strcmp(p.path, "/v1/checkin") == 0) {
        note_assignment(f, device, &p, &r);
    } else if (piece || strcmp(p.path, "/v1/update") == 0) {
        if (fed_ledger_add(&f->ledger, device, update, p.len, &err) != FED_OK) {
            federation_break(f, "D2: %s", err.text);
        }
        federation_report_update(f, device, update, p.len);
        federation_order_counted(f, lease_of(update, p.len));
    }
    free(whole);
}

bool federation_ask(federation *f, const fed_writer *request, fed_writer *answer) {
    federation_process *c = &f->process[FEDERATION_COORDINATOR];
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_u8(&w, FEDERATION_ASK);
    fed_write_u64(&w, (uint64_t)f->now_ms);
    fed_write_bytes(&w, request->data + 1, request->len - 1);
    bool answered = federation_send(c->fd, &w) && federation_receive(c->fd, answer);
    fed_writer_free(&w);
    if (!answered) {
        federation_bury(f, FEDERATION_COORDINATOR);
    }
    return answered;
}

/* All of a helper's replies about a round must be one: it opens a round once. */
static void note_opening(federation *f, const parcel *p) {
    fed_piece piece;
    fed_reader r;
    fed_reader_init(&r, p->body, p->len);
    if (strcmp(p->path, "/v1/opening") != 0) {
        return;
    }
    if (fed_piece_read(&r, &piece) != FED_OK || piece.round >= FEDERATION_VERSIONS) {
        federation_break(f, "D6: the helper's reply makes no sense");
        return;
    }
    federation_reply *reply = &f->reply[piece.round];
    if (reply->digest != 0 && reply->digest != piece.digest) {
        federation_break(f, "S20: the helper has two replies about round %u", piece.round);
        return;
    }
    f->result->opened += reply->digest == 0;
    reply->digest = piece.digest;
    const size_t len = fed_reader_left(&r);
    const uint8_t *data = fed_read_bytes(&r, len);
    if (reply->bytes == NULL) {
        reply->len = (size_t)piece.total;
        reply->bytes = calloc(1, reply->len + 1);
        assert_non_null(reply->bytes);
    }
    assert_true(piece.offset + len <= reply->len);
    memcpy(reply->bytes + piece.offset, data, len);
}

static bool forward(federation *f, unsigned device, const fed_writer *request, fed_writer *answer) {
    if (f->process[FEDERATION_COORDINATOR].pid == 0) {
        start(f, FEDERATION_COORDINATOR);
        federation_order_settle(f);
    }
    bool answered =
        f->process[FEDERATION_COORDINATOR].pid != 0 && federation_ask(f, request, answer);
    parcel p;
    open_parcel(request, &p);
    note_opening(f, &p);
    if (answered) {
        note_answer(f, device, request, answer);
    } else if (strcmp(p.path, "/v1/update") == 0) {
        federation_order_lost(f, lease_of(p.body, p.len));
    }
    return answered;
}

/** Note when the process's next step is due, and whether the process has finished. */
static void note_turn(federation *f, unsigned who, fed_reader *r) {
    federation_process *p = &f->process[who];
    fed_status status = (fed_status)fed_read_u8(r);
    p->finished = (fed_read_u8(r) != 0 || f->enrols_only) && status == FED_OK;
    bool idle = fed_read_u8(r) != 0 && status == FED_OK;
    p->due_ms = f->now_ms + TURN_MS + fed_read_u32(r);
    f->over |= p->finished && !f->enrols_only;
    p->finished |= idle && f->over;
    char text[sizeof((fed_error){0}.text)];
    fed_read_str(r, text, sizeof text);
    if (status == FED_OK) {
        return;
    }
    bool disk = p->plan->fired && (status == FED_EIO || status == FED_ENOSPC);
    p->due_ms = f->now_ms + 1000;
    p->excused = disk || status == FED_ENET;
    if (!p->excused) {
        federation_break(f, "D6: device %u failed, and can't just start again: %s", who - 1, text);
    }
}

static bool send_order(const federation *f, unsigned who) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_u8(&w, f->enrols_only ? FEDERATION_ENROL : FEDERATION_STEP);
    fed_write_str(&w, who == FEDERATION_HELPER ? f->setup->helper_token : f->setup->token[who - 1]);
    bool sent = federation_send(f->process[who].fd, &w);
    fed_writer_free(&w);
    return sent;
}

static int64_t absence_ms(const federation *f, unsigned who) {
    bool long_one = f->fault->storm != 0 && (f->fault->storm + f->process[who].lives) % 4 == 0;
    return long_one ? 100000 : 1000;
}

static void turn(federation *f, unsigned who);

/** Simulate a slow last device: every other device makes a step first. */
static void overtake(federation *f, unsigned who, const fed_writer *request) {
    parcel p;
    open_parcel(request, &p);
    if (!f->setup->one_is_late || f->overtaking || who != f->setup->devices ||
        (strcmp(p.path, "/v1/update") != 0 && strcmp(p.path, "/v1/piece") != 0)) {
        return;
    }
    f->overtaking = true;
    for (unsigned other = 1; other < who; other++) {
        if (!f->process[other].finished) {
            turn(f, other);
        }
    }
    f->overtaking = false;
}

static void turn(federation *f, unsigned who) {
    federation_process *p = &f->process[who];
    fed_writer in, answer, out;
    fed_writer_growing(&in);
    fed_writer_growing(&answer);
    fed_writer_growing(&out);
    if (p->pid == 0) {
        start(f, who);
    }
    bool alive = send_order(f, who);
    while (alive && (alive = federation_receive(p->fd, &in))) {
        if (in.data[0] == FEDERATION_DONE) {
            fed_reader r;
            fed_reader_init(&r, in.data + 1, in.len - 1);
            note_turn(f, who, &r);
            break;
        }
        overtake(f, who, &in);
        bool answered = forward(f, who - 1, &in, &answer);
        out.len = 0;
        fed_write_u8(&out, answered);
        fed_write_bytes(&out, answer.data, answered ? answer.len : 0);
        alive = federation_send(p->fd, &out);
    }
    if (!alive) {
        federation_bury(f, who);
        p->due_ms = f->now_ms + absence_ms(f, who);
    }
    fed_writer_free(&in);
    fed_writer_free(&answer);
    fed_writer_free(&out);
}

/* The helper never finishes by itself: without a device to serve it makes no step. */
static unsigned next_process(const federation *f) {
    unsigned next = 0;
    for (unsigned who = 1; who <= f->setup->devices; who++) {
        const federation_process *p = &f->process[who];
        if (!p->finished && (next == 0 || p->due_ms < f->process[next].due_ms)) {
            next = who;
        }
    }
    const federation_process *helper = &f->process[FEDERATION_HELPER];
    const bool helps = f->setup->helped && !helper->finished && (next != 0 || f->enrols_only) &&
                       (next == 0 || helper->due_ms < f->process[next].due_ms);
    return helps ? FEDERATION_HELPER : next;
}

static void live(federation *f) {
    for (unsigned who = next_process(f); who != 0; who = next_process(f)) {
        if (++f->result->turns > TURNS_MOST || f->result->broken[0] != '\0') {
            federation_break(f, "D6: the task is not over after %d turns", TURNS_MOST);
            break;
        }
        if (f->setup->job != FEDERATION_NO_JOB && !f->job_done && !f->enrols_only &&
            f->ledger.count >= f->setup->job_after) {
            f->job_done = true;
            federation_operate(f);
        }
        f->now_ms = f->process[who].due_ms > f->now_ms ? f->process[who].due_ms : f->now_ms;
        turn(f, who);
    }
    for (unsigned who = FEDERATION_PROCESSES; who-- > 0;) {
        federation_quit(f, who);
    }
}

static void open_run(federation *f, const federation_setup *setup, const federation_fault *fault,
                     federation_result *result) {
    *result = (federation_result){0};
    *f = (federation){
        .setup = setup, .fault = fault, .result = result, .now_ms = fed_clock_unix_ms()};
    /* a coordinator restored from a copy may send devices back to an older version */
    const bool copied = setup->job == FEDERATION_BACKUP || setup->job == FEDERATION_RESTORE;
    f->history = copied ? NULL : fed_history_new();
    fed_test_tmpdir(f->directory, sizeof f->directory);
    assert_int_equal(rmdir(f->directory), 0);
    copy_directory(setup->directory, f->directory);
    for (unsigned who = 0; who < FEDERATION_PROCESSES; who++) {
        f->process[who].plan = fault_shared_new(sizeof(fault_plan));
        assert_non_null(f->process[who].plan);
        f->process[who].due_ms = f->now_ms;
    }
}

static void close_run(federation *f) {
    for (unsigned who = 0; who < FEDERATION_PROCESSES; who++) {
        fault_shared_free(f->process[who].plan, sizeof(fault_plan));
    }
    federation_forget(f);
    if (f->result->broken[0] == '\0' || getenv("FED_SWEEP_KEEP") == NULL) {
        fed_test_rmdir(f->directory);
    } else {
        fprintf(stderr, "the federation's files are kept in %s\n", f->directory);
    }
}

void federation_run(const federation_setup *setup, const federation_fault *fault,
                    federation_result *result) {
    federation f;
    open_run(&f, setup, fault, result);
    live(&f);
    if (result->broken[0] == '\0') {
        federation_check(&f);
        federation_check_tasks(&f);
    } else {
        federation_judge_beginning(&f);
    }
    close_run(&f);
}

void federation_enrol(federation_setup *setup) {
    federation f;
    federation_result result;
    const federation_fault none = {0};
    open_run(&f, setup, &none, &result);
    f.enrols_only = true;
    live(&f);
    assert_string_equal(result.broken, "");
    fed_test_rmdir(setup->directory);
    copy_directory(f.directory, setup->directory);
    close_run(&f);
}
