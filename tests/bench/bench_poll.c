/* Measure the CPU time of a client's step (storing, copying, compressing), without training and
 * transport. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "deploy/sim/stores/client_stores.h"
#include "fed_fake.h"
#include "fedclient/fedclient.h"

/*
 *     bench_poll [MODEL [CODEC [CLIENTS [STORE]]]]
 *
 * CLIENTS (default 16) with MODEL (lenet5-caffe) take steps in turn, each with a fake coordinator.
 * A client's first step does not count. With "stores" as STORE only
 * deploy/sim/stores/client_stores.h is measured.
 */

enum { TURNS = 40, CLIENTS_MAX = 400 };

typedef struct device {
    fed_fake fake;
    fedclient_transport transport;
    fedclient_platform platform;
    fedclient *client;
    double outside_s; /* CPU time of the callback and the transport in this step */
} device;

static fed_status send_watched(void *user, const fedclient_request *request, int *status,
                               fed_writer *answer, fed_error *err) {
    device *d = user;
    const double start = bench_clock_s(CLOCK_THREAD_CPUTIME_ID);
    fed_status sent = d->fake.transport.send(d->fake.transport.user, request, status, answer, err);
    d->outside_s += bench_clock_s(CLOCK_THREAD_CPUTIME_ID) - start;
    return sent;
}

static fed_status identify(void *user, const fed_pem *key, const fed_pem *cert, fed_error *err) {
    (void)user, (void)key, (void)cert, (void)err;
    return FED_OK;
}

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    device *d = user;
    (void)err;
    const double start = bench_clock_s(CLOCK_THREAD_CPUTIME_ID);
    uint32_t noise = round->round;
    for (size_t i = 0; i < round->arch->layout.size; i++) {
        noise = noise * 1664525U + 1013904223U;
        round->values[i] += ((float)(noise >> 8) - 0x1p23f) * 0x1p-34f;
    }
    round->samples = 10;
    round->loss = 0.5f;
    d->outside_s += bench_clock_s(CLOCK_THREAD_CPUTIME_ID) - start;
    return FED_OK;
}

static void device_open(device *d, const char *model, const char *codec) {
    fed_error err = {0};
    fed_fake_open(&d->fake, model, codec, FED_FAKE_VERSIONS);
    d->transport = d->fake.transport;
    d->transport.user = d;
    d->transport.send = send_watched;
    d->transport.identify = identify;
    const fedclient_options options = {.server = "https://fake:8443",
                                       .platform = &d->platform,
                                       .transport = &d->transport,
                                       .train = train,
                                       .user = d};
    bench_require(fedclient_open(&options, &d->client, &err), err.text);
    bench_require(fedclient_enrol(d->client, "good-token", &err), err.text);
}

static void device_close(device *d) {
    fedclient_close(d->client);
    fed_fake_close(&d->fake);
}

static double turn_s(device *d) {
    fed_error err = {0};
    fedclient_event event;
    d->outside_s = 0;
    const double start = bench_clock_s(CLOCK_THREAD_CPUTIME_ID);
    bench_require(fedclient_step(d->client, &event, &err), err.text);
    bench_require(event.outcome == FEDCLIENT_COUNTED ? FED_OK : FED_ESTATE, err.text);
    return bench_clock_s(CLOCK_THREAD_CPUTIME_ID) - start - d->outside_s;
}

static void run(const char *store, const char *model, const char *codec, size_t clients,
                device *devices) {
    bench_times rounds = {.count = 0};
    for (size_t k = 0; k < clients; k++) {
        device_open(&devices[k], model, codec);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        double sum = 0;
        for (size_t k = 0; k < clients; k++) {
            sum += turn_s(&devices[k]);
        }
        if (turn > 0) {
            rounds.s[rounds.count++] = sum / (double)clients;
        }
    }
    printf("| %-42s | %.3f |\n", store, 1e3 * bench_median_s(&rounds));
    for (size_t k = 0; k < clients; k++) {
        device_close(&devices[k]);
    }
}

static void run_memory(const char *model, const char *codec, size_t clients, device *devices,
                       bool lends) {
    fed_error err = {0};
    for (size_t k = 0; k < clients; k++) {
        bench_require(fedclient_platform_memory_open(&devices[k].platform, &err), err.text);
        devices[k].platform.memory = lends ? devices[k].platform.memory : NULL;
    }
    run(lends ? "memory" : "memory, copied and guarded as on a device", model, codec, clients,
        devices);
    for (size_t k = 0; k < clients; k++) {
        fedclient_platform_memory_close(&devices[k].platform);
    }
}

static void run_flash(const char *model, const char *codec, size_t clients, device *devices) {
    fed_error err = {0};
    sim_stores *stores = NULL;
    bench_require(sim_stores_open(NULL, (uint32_t)clients, false, (size_t)1 << 31, &stores, &err),
                  err.text);
    for (size_t k = 0; k < clients; k++) {
        sim_stores_platform(stores, (uint32_t)k, &devices[k].platform);
    }
    run("deploy/sim/stores/client_stores.h", model, codec, clients, devices);
    sim_stores_close(stores);
}

int main(int argc, char **argv) {
    static device devices[CLIENTS_MAX];
    const char *model = argc > 1 ? argv[1] : "lenet5-caffe";
    const char *codec = argc > 2 ? argv[2] : "sbc:p=0.01";
    const size_t clients = argc > 3 ? strtoul(argv[3], NULL, 10) : 16;
    const char *store = argc > 4 ? argv[4] : "";
    if (clients < 1 || clients > CLIENTS_MAX) {
        fprintf(stderr, "usage: bench_poll [MODEL [CODEC [CLIENTS [STORE]]]], CLIENTS 1 to %d\n",
                CLIENTS_MAX);
        return 2;
    }
    printf("| %zu clients of %s, %s: store | CPU ms a turn beside training |\n|---|---|\n", clients,
           model, codec);
    if (strcmp(store, "stores") != 0) {
        run_memory(model, codec, clients, devices, false);
        run_memory(model, codec, clients, devices, true);
    }
    run_flash(model, codec, clients, devices);
    return 0;
}
