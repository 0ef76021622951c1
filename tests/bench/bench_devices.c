/* Measure the cost of an enrolment for a coordinator with many devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fed/clock.h"
#include "fedserver/fedserver.h"
#include "fedserver/operator.h"
#include "fedserver/stores/stores.h"

/*
 *     bench_devices DIRECTORY [DEVICES]
 *
 * It makes a coordinator in DIRECTORY, which must not exist and is not removed. A second handle on
 * the database enrols one device after another, as the front process does. After each, a batch of
 * the coordinator, which reads the new device's row, is measured: at 1,000 devices and at DEVICES
 * (default 1,000,000). Also measured: the coordinator's first batch, and a pass over all devices.
 */

enum { ROUNDS = 200, FEW = 1000 };

typedef struct bench {
    const char *directory;
    const fedserver_store *store;
    void *db;
    size_t devices;
} bench;

static void enrol(bench *b, size_t count) {
    fed_error err = {0};
    for (size_t k = 0; k < count; k++) {
        fedserver_device device = {.expires_ms = INT64_MAX};
        b->devices++;
        memcpy(device.fingerprint, &b->devices, sizeof b->devices);
        bench_require(b->store->device_add(b->db, &device, &err), err.text);
    }
    bench_require(b->store->commit(b->db, &err), err.text);
}

static fed_status ignore(void *user, const fedserver_device *device, fed_error *err) {
    (void)user, (void)device, (void)err;
    return FED_OK;
}

static void batch(fedserver *server) {
    fed_error err = {0};
    int64_t next_ms;
    bench_require(fedserver_begin(server, &err), err.text);
    bench_require(fedserver_tick(server, fed_clock_unix_ms(), &next_ms, &err), err.text);
    bench_require(fedserver_commit(server, &err), err.text);
}

static void measure(bench *b, double *take_over_s) {
    fed_error err = {0};
    fedserver *server;
    bench_times start = {.count = 0}, walk = {.count = 0}, taken = {.count = 0};
    bench_require(fedserver_open(b->directory, NULL, &server, &err), err.text);
    BENCH_TIME(&start, batch(server));
    for (int k = 0; k < 5; k++) {
        BENCH_TIME(&walk,
                   bench_require(b->store->device_each(b->db, ignore, NULL, &err), err.text));
    }
    for (int k = 0; k < ROUNDS; k++) {
        enrol(b, 1);
        BENCH_TIME(&taken, batch(server));
    }
    fedserver_close(server);
    *take_over_s = bench_median_s(&taken);
    printf("| %zu | %.1f | %.3f | %.2f |\n", b->devices, 1e3 * bench_median_s(&start),
           1e3 * *take_over_s, 1e3 * bench_median_s(&walk));
    fflush(stdout);
}

int main(int argc, char **argv) {
    const size_t many = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
    if (argc < 2 || many <= FEW + ROUNDS) {
        fprintf(stderr, "usage: bench_devices DIRECTORY [DEVICES], more than %d\n", FEW + ROUNDS);
        return 2;
    }
    bench b = {.directory = argv[1], .store = fedserver_store_at(0)};
    fed_error err = {0};
    double few_s, many_s;
    bench_require(fedserver_init(b.directory, &(fedserver_init_options){0}, &err), err.text);
    bench_require(b.store->open(b.directory, "", &b.db, &err), err.text);
    printf("| devices | start, ms | an enrolment is taken over, ms | a walk over all, ms |\n"
           "|--:|--:|--:|--:|\n");
    enrol(&b, FEW);
    measure(&b, &few_s);
    enrol(&b, many - b.devices);
    measure(&b, &many_s);
    printf("\nat %zu devices an enrolment takes %.2f times as long as at %d\n", many,
           many_s / few_s, FEW);
    b.store->close(b.db);
    return 0;
}
