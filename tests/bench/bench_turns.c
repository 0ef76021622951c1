/* Measure what the opening of a round costs a coordinator by the number of devices that wait. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fed/arch.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed/hash.h"
#include "fed/version.h"
#include "fed/wire.h"
#include "fedcodec/envelope.h"
#include "fedserver/fedserver.h"
#include "fedserver/operator.h"
#include "fedserver/stores/stores.h"

/*
 *     bench_turns DIRECTORY DEVICES [COHORT] [all]
 *
 * It makes a coordinator in DIRECTORY, which must not exist and is not removed. DEVICES (from 100)
 * check in and are held, in one process without TLS and sockets. COHORT of them (10) train a model
 * of 6 values; nothing is trained. Measured, over 30 rounds: from the last update of a round until
 * all slots of the next round are taken, with the commits. With `all`, every held check-in is asked
 * again when a round opens, as up to decision 45.
 */

enum { ROUNDS = 30, HOLD_MS = 50000 };
static const char model[] = "input 2 | dense 2", codec[] = "float32";

typedef struct one {
    uint8_t fingerprint[FED_SHA256_SIZE];
    uint64_t key; /* of its held check-in */
    bool held;
    uint64_t lease;
    uint32_t round;
} one;

typedef struct bench {
    fedserver *server;
    one *ones;
    size_t count, asked;
    uint32_t cohort, working;
    uint64_t task;
    fed_writer update, body;
} bench;

static void begin(const bench *b) {
    fed_error err = {0};
    bench_require(fedserver_begin(b->server, &err), err.text);
}

static void commit(const bench *b) {
    fed_error err = {0};
    int64_t next_ms;
    bench_require(fedserver_tick(b->server, fed_clock_unix_ms(), &next_ms, &err), err.text);
    bench_require(fedserver_commit(b->server, &err), err.text);
}

static void ask(bench *b, const one *o, const char *path, fedserver_response *response) {
    fed_error err = {0};
    const fedserver_request request = {.listener = FEDSERVER_DEVICES,
                                       .method = "POST",
                                       .path = path,
                                       .query = "",
                                       .body = b->body.data,
                                       .body_len = b->body.len,
                                       .fingerprint = o->fingerprint};
    bench_require(fedserver_handle(b->server, &request, fed_clock_unix_ms(), response, &err),
                  err.text);
    b->body.len = 0;
}

static void check_in(bench *b, one *o) {
    fedserver_response response;
    fed_checkin_write(&b->body, &(fed_checkin){.role = FED_ROLE_TRAIN, .hold_ms = HOLD_MS});
    ask(b, o, FED_PATH_CHECKIN, &response);
    b->asked++;
    o->held = response.hold;
    if (response.hold) {
        o->key = response.hold_key;
        return;
    }
    size_t len = 0;
    fed_reader r;
    fed_assignment work;
    const uint8_t *data = fedserver_blob_data(response.body, &len);
    fed_reader_init(&r, data, len);
    bench_require(fed_assignment_read(&r, FED_PROTOCOL, &work), "an assignment");
    bench_require(work.action == FED_ACTION_TRAIN ? FED_OK : FED_ESTATE, "a lease");
    fedserver_blob_free(response.body);
    o->lease = work.lease;
    o->round = work.round;
    b->working++;
}

static void report(bench *b, one *o) {
    fedserver_response response;
    fed_update_write(
        &b->body,
        &(fed_update){.task = b->task, .round = o->round, .lease = o->lease, .samples = 1});
    fed_write_bytes(&b->body, b->update.data, b->update.len);
    ask(b, o, FED_PATH_UPDATE, &response);
    bench_require(response.status == 200 ? FED_OK : FED_ESTATE, "an update");
    fedserver_blob_free(response.body);
    o->lease = 0;
    b->working--;
}

static void ask_all(bench *b) {
    for (size_t k = 0; k < b->count; k++) {
        if (b->ones[k].held) {
            check_in(b, &b->ones[k]);
        }
    }
}

/* The keys are the devices' numbers, from 1. */
static void ask_woken(bench *b) {
    for (uint64_t key = fedserver_woken(b->server); key != 0; key = fedserver_woken(b->server)) {
        one *o = key - 1 < b->count ? &b->ones[key - 1] : NULL;
        if (o != NULL && o->held && o->key == key) {
            check_in(b, o);
        }
    }
}

/* Ask until the slots are taken, in batches as the adapter does. */
static void fill(bench *b, bool all) {
    uint64_t epoch = fedserver_epoch(b->server);
    while (b->working < b->cohort) {
        begin(b);
        if (all || epoch != fedserver_epoch(b->server)) {
            epoch = fedserver_epoch(b->server);
            ask_all(b);
        }
        commit(b);
        ask_woken(b);
    }
}

/* The devices that work report, then the others of the last round check in again. */
static double play(bench *b, bool all) {
    one *last = NULL;
    begin(b);
    for (size_t k = 0; k < b->count; k++) {
        one *o = &b->ones[k];
        if (o->lease != 0 && last == NULL) {
            last = o;
        } else if (o->lease != 0) {
            report(b, o);
            check_in(b, o);
        }
    }
    commit(b);
    const double start_s = bench_now_s();
    begin(b);
    report(b, last);
    check_in(b, last);
    if (all) {
        ask_all(b);
    } else {
        ask_woken(b);
    }
    commit(b);
    while (b->working < b->cohort) {
        begin(b);
        ask_woken(b);
        commit(b);
    }
    return bench_now_s() - start_s;
}

static void add_task(bench *b, const char *directory) {
    char text[300], path[400];
    fed_error err = {0};
    const int len = snprintf(text, sizeof text,
                             "{\"model\": \"%s\", \"codec_up\": \"%s\", \"codec_down\": \"%s\", "
                             "\"cohort\": %" PRIu32 ", \"rounds\": 100000, "
                             "\"deadline_s\": 600, \"small_tensor\": 0}",
                             model, codec, codec, b->cohort);
    snprintf(path, sizeof path, "%s/turns.json", directory);
    bench_require(fed_file_replace(path, (const uint8_t *)text, (size_t)len, 0600, &err), err.text);
    bench_require(fedserver_task_add(b->server, fed_clock_unix_ms(), path, &b->task, &err),
                  err.text);
}

static void make_update(fed_writer *update) {
    fed_arch arch;
    fedcodec up;
    fed_error err = {0};
    bench_require(fed_arch_parse(model, &arch, &err), err.text);
    bench_require(fedcodec_parse(codec, &up, &err), err.text);
    float *values = bench_alloc(arch.layout.size * sizeof *values);
    float *residual = bench_alloc(arch.layout.size * sizeof *residual);
    void *work = bench_alloc(fedcodec_envelope_work_size(&up, &arch.layout, 0));
    fed_writer_growing(update);
    bench_require(fedcodec_envelope_encode(&up, &arch.layout, 0, residual, values, work, update),
                  codec);
    free(work);
    free(residual);
    free(values);
    fed_arch_free(&arch);
}

static void enrol_all(bench *b, const char *directory) {
    fed_error err = {0};
    void *db = NULL;
    const fedserver_store *store = fedserver_store_at(0);
    bench_require(fedserver_init(directory, &(fedserver_init_options){0}, &err), err.text);
    bench_require(store->open(directory, "", &db, &err), err.text);
    for (uint64_t k = 0; k < b->count; k++) {
        fedserver_device device = {.expires_ms = INT64_MAX};
        fed_sha256(&k, sizeof k, device.fingerprint);
        memcpy(b->ones[k].fingerprint, device.fingerprint, sizeof device.fingerprint);
        bench_require(store->device_add(db, &device, &err), err.text);
    }
    bench_require(store->commit(db, &err), err.text);
    store->close(db);
    bench_require(fedserver_open(directory, NULL, &b->server, &err), err.text);
    fedserver_ports(b->server, 0, 0);
}

int main(int argc, char **argv) {
    bench b = {.count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0,
               .cohort = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 10};
    const bool all = argc > 4 && strcmp(argv[4], "all") == 0;
    if (b.count < 100 || b.cohort == 0 || b.cohort > b.count / 2) {
        fprintf(stderr, "usage: bench_turns DIRECTORY DEVICES [COHORT] [all], DEVICES from 100, "
                        "COHORT up to a half of them\n");
        return 2;
    }
    b.ones = bench_alloc(b.count * sizeof *b.ones);
    fed_writer_growing(&b.body);
    enrol_all(&b, argv[1]);
    make_update(&b.update);
    begin(&b);
    for (size_t k = 0; k < b.count; k++) {
        check_in(&b, &b.ones[k]);
    }
    commit(&b);
    add_task(&b, argv[1]);
    fill(&b, true);
    bench_times times = {.count = 0};
    b.asked = 0;
    const double cpu_s = bench_clock_s(CLOCK_PROCESS_CPUTIME_ID);
    for (int k = 0; k < ROUNDS; k++) {
        times.s[times.count++] = play(&b, all);
    }
    const double spent_s = (bench_clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu_s) / ROUNDS;
    printf("| %zu | %" PRIu32 " | %s | %.1f | %.2f | %.2f |\n", b.count, b.cohort,
           all ? "all" : "those drawn", (double)b.asked / ROUNDS, 1e3 * bench_median_s(&times),
           1e3 * spent_s);
    fedserver_close(b.server);
    fed_writer_free(&b.body);
    fed_writer_free(&b.update);
    free(b.ones);
    return 0;
}
