/* Virtual devices. A ring of lists has, for each second, the devices that act in it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "crowd.h"

#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fed/arch.h"
#include "fed/file.h"
#include "fed/rng.h"
#include "fed/version.h"
#include "fed/wire.h"
#include "fedclient/fedclient.h"
#include "fedcodec/envelope.h"
#include "fedserver/operator.h"

enum { RING = 2048, BATCH = 64, SPREAD_S = 900 };
/* A training takes TRAIN_S +- 50 %. By chance, one lease of LOST is not used. */
enum { TRAIN_S = 60, LOST = 20, AFTER_REPORT_S = 5 };
static const int64_t epoch_ms = INT64_C(1700000000000);
static const char model[] = "lenet5-caffe";

/* Times are seconds since the crowd began. */
typedef struct device {
    uint32_t next; /* next device of the list, as index + 1; 0: none */
    uint32_t due_s;
    uint64_t lease;
    uint32_t round, version;
    uint32_t told_ms; /* the wait that the coordinator demanded, in ms */
    uint16_t trained;
    uint8_t failures;
} device;

struct crowd {
    fedserver *server;
    device *devices;
    uint32_t count;
    uint32_t *ring; /* [RING]; first device of each list, as index + 1; 0: none */
    uint32_t second;
    fed_rng rng;
    uint64_t task;
    fed_writer update;
    fed_writer body;
    crowd_counts counts;
    double start_s;
};

static void stand(crowd *c, uint32_t k, uint32_t due_s) {
    const uint32_t last = c->second + RING - 1;
    uint32_t *list = &c->ring[(due_s < last ? due_s : last) % RING];
    c->devices[k].due_s = due_s;
    c->devices[k].next = *list;
    *list = k + 1;
}

static void wait(crowd *c, uint32_t k, uint32_t least_s) {
    stand(c, k, c->second + (least_s > 0 ? least_s : 1));
}

/* Make ascending fingerprints, which a store can add fast. */
static void fingerprint_of(uint32_t k, uint32_t count, uint8_t fingerprint[FED_SHA256_SIZE]) {
    const uint64_t place = UINT64_MAX / count * k;
    fed_rng rng;
    fed_rng_init(&rng, k, 1, 0);
    for (size_t i = 0; i < FED_SHA256_SIZE; i += sizeof(uint32_t)) {
        const uint32_t word = fed_rng_u32(&rng);
        memcpy(fingerprint + i, &word, sizeof word);
    }
    for (size_t i = 0; i < sizeof place; i++) {
        fingerprint[i] = (uint8_t)(place >> (56 - 8 * i));
    }
}

static void ask(crowd *c, uint32_t k, const char *method, const char *path, const char *query,
                fedserver_response *response) {
    uint8_t fingerprint[FED_SHA256_SIZE];
    fed_error err = {0};
    fingerprint_of(k, c->count, fingerprint);
    const fedserver_request request = {.listener = FEDSERVER_DEVICES,
                                       .method = method,
                                       .path = path,
                                       .query = query,
                                       .body = c->body.data,
                                       .body_len = c->body.len,
                                       .fingerprint = fingerprint};
    const int64_t now_ms = epoch_ms + INT64_C(1000) * c->second;
    bench_require(fedserver_handle(c->server, &request, now_ms, response, &err), err.text);
    size_t len = 0;
    if (response->body != NULL) {
        (void)fedserver_blob_data(response->body, &len);
    }
    c->counts.up_bytes += c->body.len;
    c->counts.down_bytes += len;
    c->body.len = 0;
}

static void download(crowd *c, uint32_t k, const fed_assignment *assignment) {
    device *d = &c->devices[k];
    char query[120], have[16] = "none";
    fedserver_response response;
    if (d->version != 0) {
        snprintf(have, sizeof have, "%" PRIu32, d->version - 1);
    }
    snprintf(query, sizeof query, "task=%" PRIu64 "&have=%s&want=%" PRIu32, assignment->task.id,
             have, assignment->version);
    ask(c, k, "GET", FED_PATH_MODEL, query, &response);
    fedserver_blob_free(response.body);
    bench_require(response.status == 200 ? FED_OK : FED_ESTATE, "a model");
    d->version = assignment->version + 1;
    c->counts.downloads++;
}

static void train(crowd *c, uint32_t k, const fed_assignment *assignment) {
    device *d = &c->devices[k];
    c->counts.leases++;
    if (d->version != assignment->version + 1) {
        download(c, k, assignment);
    }
    const bool lost = fed_rng_below(&c->rng, LOST) == 0;
    d->lease = lost ? 0 : assignment->lease;
    d->round = assignment->round;
    d->trained++;
    wait(c, k, TRAIN_S / 2 + fed_rng_below(&c->rng, TRAIN_S));
}

static void check_in(crowd *c, uint32_t k) {
    const device *d = &c->devices[k];
    const fed_checkin checkin = {
        .role = FED_ROLE_TRAIN,
        .held = {{d->version != 0 ? c->task : 0, d->version != 0 ? d->version - 1 : 0}},
        .samples = 100,
        .capabilities = FED_CAN_STAGES | FED_CAN_EDEN};
    fedserver_response response;
    fed_assignment assignment = {0};
    fed_checkin_write(&c->body, &checkin);
    ask(c, k, "POST", FED_PATH_CHECKIN, "", &response);
    c->counts.checkins++;
    bench_require(response.status == 200 ? FED_OK : FED_ESTATE, "a check-in");
    size_t len;
    const uint8_t *data = fedserver_blob_data(response.body, &len);
    fed_reader r;
    fed_reader_init(&r, data, len);
    bench_require(fed_assignment_read(&r, FED_PROTOCOL, &assignment), "an assignment");
    fedserver_blob_free(response.body);
    c->devices[k].told_ms = assignment.retry_ms;
    if (assignment.action == FED_ACTION_TRAIN) {
        train(c, k, &assignment);
    } else {
        wait(c, k, (assignment.retry_ms + 999) / 1000);
    }
}

static void report(crowd *c, uint32_t k) {
    device *d = &c->devices[k];
    const fed_update head = {
        .task = c->task, .round = d->round, .lease = d->lease, .samples = 100, .loss = 1.0F};
    fedserver_response response;
    fed_update_write(&c->body, &head);
    fed_write_bytes(&c->body, c->update.data, c->update.len);
    ask(c, k, "POST", FED_PATH_UPDATE, "", &response);
    fedserver_blob_free(response.body);
    c->counts.updates++;
    c->counts.counted += response.status == 200;
    c->counts.refused += response.status == 409;
    bench_require(response.status == 200 || response.status == 409 ? FED_OK : FED_ESTATE,
                  "an update");
    d->lease = 0;
    wait(c, k, AFTER_REPORT_S);
}

static void note_batch(crowd_counts *counts, double took_s) {
    size_t k = 0;
    while (k + 1 < sizeof counts->took / sizeof counts->took[0] &&
           1e6 * took_s >= exp2((double)k / 2)) {
        k++;
    }
    counts->took[k]++;
    counts->batches++;
    counts->longest_s = fmax(counts->longest_s, took_s);
}

static uint32_t batch(crowd *c, uint32_t list) {
    const double start_s = bench_now_s(), start_cpu_s = bench_clock_s(CLOCK_PROCESS_CPUTIME_ID);
    fed_error err = {0};
    int64_t next_ms;
    bench_require(fedserver_begin(c->server, &err), err.text);
    for (size_t n = 0; list != 0 && n < BATCH;) {
        const uint32_t k = list - 1;
        device *d = &c->devices[k];
        list = d->next;
        if (d->due_s > c->second) {
            stand(c, k, d->due_s);
            continue;
        }
        d->failures = 0;
        if (d->lease != 0) {
            report(c, k);
        } else {
            check_in(c, k);
        }
        n++;
    }
    bench_require(fedserver_tick(c->server, epoch_ms + INT64_C(1000) * c->second, &next_ms, &err),
                  err.text);
    bench_require(fedserver_commit(c->server, &err), err.text);
    c->counts.cpu_s += bench_clock_s(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_s;
    note_batch(&c->counts, bench_now_s() - start_s);
    return list;
}

static void back_off(crowd *c, uint32_t list) {
    while (list != 0) {
        const uint32_t k = list - 1;
        device *d = &c->devices[k];
        list = d->next;
        if (d->due_s > c->second) {
            stand(c, k, d->due_s);
            continue;
        }
        c->counts.failed++;
        d->failures = (uint8_t)(d->failures < UINT8_MAX ? d->failures + 1 : UINT8_MAX);
        wait(c, k, (fedclient_backoff_draw(d->failures, d->told_ms, &c->rng) + 999) / 1000);
    }
}

void crowd_second(crowd *c, bool outage) {
    const uint64_t before = c->counts.checkins + c->counts.updates;
    uint32_t list = c->ring[c->second % RING];
    c->ring[c->second % RING] = 0;
    if (outage) {
        back_off(c, list);
    } else {
        do {
            list = batch(c, list);
        } while (list != 0);
    }
    const uint64_t asked = c->counts.checkins + c->counts.updates - before;
    c->counts.busiest = asked > c->counts.busiest ? asked : c->counts.busiest;
    c->second++;
}

static void require_sql(sqlite3 *db, bool holds) {
    if (!holds) {
        fprintf(stderr, "the devices can't be enrolled: %s\n", sqlite3_errmsg(db));
        exit(1);
    }
}

static void script(sqlite3 *db, const char *sql) {
    require_sql(db, sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
}

/* Write the rows that the store's device_add would write, to save time. */
static void enrol_all(const char *directory, uint32_t devices) {
    sqlite3 *db = NULL;
    sqlite3_stmt *add = NULL;
    char path[400];
    snprintf(path, sizeof path, "%s/server.db", directory);
    require_sql(db, sqlite3_open(path, &db) == SQLITE_OK);
    script(db, "PRAGMA synchronous = OFF; BEGIN");
    require_sql(db, sqlite3_prepare_v2(db,
                                       "INSERT INTO devices (fingerprint, enrolled_ms, expires_ms,"
                                       " change) VALUES (?, ?, 9223372036854775807, ?)",
                                       -1, &add, NULL) == SQLITE_OK);
    sqlite3_bind_int64(add, 2, epoch_ms);
    for (uint32_t k = 0; k < devices; k++) {
        uint8_t fingerprint[FED_SHA256_SIZE];
        fingerprint_of(k, devices, fingerprint);
        sqlite3_bind_blob(add, 1, fingerprint, sizeof fingerprint, SQLITE_STATIC);
        sqlite3_bind_int64(add, 3, k + 1);
        require_sql(db, sqlite3_step(add) == SQLITE_DONE);
        sqlite3_reset(add);
        if (k % 100000 == 99999) {
            script(db, "COMMIT; BEGIN");
        }
    }
    script(db, "COMMIT");
    sqlite3_finalize(add);
    sqlite3_close(db);
}

static void make_update(const char *up, fed_writer *update) {
    fed_arch arch;
    fed_rng rng;
    fedcodec codec;
    fed_error err = {0};
    bench_require(fed_arch_parse(model, &arch, &err), err.text);
    bench_require(fedcodec_parse(up, &codec, &err), err.text);
    const size_t size = arch.layout.size;
    float *gradient = bench_alloc(size * sizeof *gradient);
    float *residual = bench_alloc(size * sizeof *residual);
    void *work = bench_alloc(fedcodec_envelope_work_size(&codec, &arch.layout, 0));
    fed_rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < size; i++) {
        gradient[i] = 1e-3F * (fed_rng_float(&rng) - 0.5F);
    }
    fed_writer_growing(update);
    bench_require(
        fedcodec_envelope_encode(&codec, &arch.layout, 0, residual, gradient, work, update), up);
    free(work);
    free(residual);
    free(gradient);
    fed_arch_free(&arch);
}

static void add_task(crowd *c, const char *directory, uint32_t cohort, const char *up) {
    char text[300], path[400];
    fed_error err = {0};
    const int len = snprintf(text, sizeof text,
                             "{\"name\": \"crowd\", \"model\": \"%s\", \"codec_up\": \"%s\", "
                             "\"cohort\": %" PRIu32 ", \"goal\": %" PRIu32
                             ", \"rounds\": 1000000, \"deadline_s\": 300, \"small_tensor\": 0}",
                             model, up, cohort, cohort - cohort / 4);
    snprintf(path, sizeof path, "%s/crowd.json", directory);
    bench_require(fed_file_replace(path, (const uint8_t *)text, (size_t)len, 0600, &err), err.text);
    bench_require(fedserver_task_add(c->server, epoch_ms, path, &c->task, &err), err.text);
}

crowd *crowd_open(const char *directory, uint32_t devices, uint32_t cohort, const char *up) {
    crowd *c = bench_alloc(sizeof *c);
    fed_error err = {0};
    c->count = devices;
    c->devices = bench_alloc(devices * sizeof *c->devices);
    c->ring = bench_alloc(RING * sizeof *c->ring);
    fed_rng_init(&c->rng, 4, 5, 6);
    fed_writer_growing(&c->body);
    make_update(up, &c->update);
    bench_require(fedserver_init(directory, &(fedserver_init_options){0}, &err), err.text);
    enrol_all(directory, devices);
    bench_require(fedserver_open(directory, NULL, &c->server, &err), err.text);
    add_task(c, directory, cohort, up);
    const double start_s = bench_now_s();
    bench_require(fedserver_begin(c->server, &err), err.text);
    bench_require(fedserver_commit(c->server, &err), err.text);
    c->start_s = bench_now_s() - start_s;
    for (uint32_t k = 0; k < devices; k++) {
        stand(c, k, fed_rng_below(&c->rng, SPREAD_S));
    }
    return c;
}

void crowd_close(crowd *c) {
    fedserver_close(c->server);
    fed_writer_free(&c->update);
    fed_writer_free(&c->body);
    free(c->ring);
    free(c->devices);
    free(c);
}

crowd_counts *crowd_counted(crowd *c) {
    return &c->counts;
}

double crowd_start_s(const crowd *c) {
    return c->start_s;
}

uint32_t crowd_version(const crowd *c) {
    bool running;
    return fedserver_version(c->server, &running);
}

void crowd_fairness(const crowd *c, double *mean, double *spread) {
    double sum = 0.0, squares = 0.0;
    for (uint32_t k = 0; k < c->count; k++) {
        sum += c->devices[k].trained;
        squares += (double)c->devices[k].trained * c->devices[k].trained;
    }
    *mean = sum / c->count;
    *spread = *mean > 0.0 ? (squares / c->count - *mean * *mean) / *mean : 0.0;
}

double crowd_quantile(const crowd_counts *counts, double share) {
    double seen = 0.0;
    for (size_t k = 0; k < sizeof counts->took / sizeof counts->took[0]; k++) {
        seen += counts->took[k];
        if (seen >= share * (double)counts->batches) {
            return fmin(1e-6 * exp2((double)k / 2), counts->longest_s);
        }
    }
    return counts->longest_s;
}
