/* Measure how long devices wait while a round closes, and how long the next version takes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "coordinator_fixture.h"
#include "fed/rng.h"

/*
 *     bench_closing [VALUES [CODEC_UP [CODEC_DOWN]]]
 *
 * Two devices take part in each round of a model of VALUES values (default 25000000), without
 * sockets. In a measured batch, a third device checks in and a row is written, so that the batch
 * waits for the disk. Versions are made within a batch in one run, and in a thread in the other.
 * The table has:
 *
 *     last     the batch of the round's last update, ms: median and longest
 *     beside   the longest batch from then on until the next version is committed, ms
 *     version  from the begin of the last update's batch to the next version, ms: median
 *     memory   the process at its largest, MB
 *
 * The store is in $TMPDIR.
 */

enum { ROUNDS = 7 };

typedef struct run {
    coordinator c;
    test_device d[3];
    bench_times last, beside, version;
    double longest_last_s, longest_beside_s;
    uint32_t tokens;
} run;

static void write_a_row(run *r) {
    fed_error err = {0};
    uint8_t hash[FED_SHA256_SIZE];
    const fedserver_token token = {.expires_ms = 1};
    fed_rng rng;
    fed_rng_init(&rng, 7, r->tokens++, 0);
    for (size_t k = 0; k < sizeof hash; k++) {
        hash[k] = (uint8_t)fed_rng_u32(&rng);
    }
    bench_require(r->c.server->store->token_add(r->c.server->db, hash, &token, &err), err.text);
}

static uint32_t version_of(const run *r) {
    return fedserver_rounds_front(&r->c.server->rounds)->versions.version;
}

static double batch(run *r) {
    const double start_s = bench_now_s();
    (void)device_ask_work(&r->c, &r->d[2]);
    write_a_row(r);
    coordinator_wait(&r->c, 1);
    coordinator_commit(&r->c);
    return bench_now_s() - start_s;
}

static void update(run *r, int k, const fed_assignment *work, const float *x) {
    if (device_upload(&r->c, &r->d[k], work, x, 1, NULL) != 200) {
        bench_require(FED_EFORMAT, "the coordinator refused an update");
    }
}

static void one_round(run *r, const float *x) {
    const uint32_t before = version_of(r);
    fed_assignment work[2];
    for (int k = 0; k < 2; k++) {
        work[k] = device_ask_work(&r->c, &r->d[k]);
    }
    update(r, 0, &work[0], x);
    (void)batch(r);
    fed_writer body;
    fed_writer_growing(&body);
    device_encode(&work[1], x, 1, &body);
    const double start_s = bench_now_s();
    answer a = coordinator_ask(&r->c, &r->d[1], "POST", "/v1/update", "", body.data, body.len);
    bench_require(a.status == 200 ? FED_OK : FED_EFORMAT, "the coordinator refused an update");
    answer_free(&a);
    const double handled_s = bench_now_s() - start_s;
    double beside_s = 0;
    const double last_s = handled_s + batch(r);
    while (version_of(r) == before) {
        const double took_s = batch(r);
        beside_s = took_s > beside_s ? took_s : beside_s;
    }
    r->last.s[r->last.count++] = last_s;
    r->beside.s[r->beside.count++] = beside_s;
    r->version.s[r->version.count++] = bench_now_s() - start_s;
    r->longest_last_s = last_s > r->longest_last_s ? last_s : r->longest_last_s;
    r->longest_beside_s = beside_s > r->longest_beside_s ? beside_s : r->longest_beside_s;
    fed_writer_free(&body);
}

static void open_coordinator(run *r, size_t apart_values) {
    fed_error err = {0};
    coordinator_setup(&r->c);
    fedserver_close(r->c.server);
    bench_require(fedserver_open(r->c.directory, NULL, &r->c.server, &err), err.text);
    fedserver_configure(r->c.server, &(fedserver_setup){.apart_values = apart_values});
    bench_require(fedserver_begin(r->c.server, &err), err.text);
    fedserver_ports(r->c.server, 8443, 8444);
    for (int k = 0; k < 3; k++) {
        r->d[k] = coordinator_enrol(&r->c);
    }
}

static void measure(size_t values, const char *up, const char *down, bool apart) {
    char task[400];
    run *r = bench_alloc(sizeof *r);
    open_coordinator(r, apart ? 1 : 0);
    snprintf(task, sizeof task,
             "{\"model\": \"vector %zu\", \"codec_up\": \"%s\", \"codec_down\": \"%s\","
             " \"rounds\": %d, \"cohort\": 3, \"goal\": 2, \"deadline_s\": 3600}",
             values, up, down, ROUNDS + 1);
    coordinator_task(&r->c, task);
    float *x = bench_alloc(values * sizeof *x);
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < values; i++) {
        x[i] = fed_rng_float(&rng) - 0.5f;
    }
    for (int k = 0; k < ROUNDS; k++) {
        one_round(r, x);
    }
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used);
    printf("| %zu | %s | %.1f | %.1f | %.1f | %.1f | %.0f |\n", values, apart ? "thread" : "batch",
           1e3 * bench_median_s(&r->last), 1e3 * r->longest_last_s, 1e3 * r->longest_beside_s,
           1e3 * bench_median_s(&r->version), (double)used.ru_maxrss / 1024);
    fflush(stdout);
    free(x);
    coordinator_teardown(&r->c);
    free(r);
}

int main(int argc, char **argv) {
    const size_t values = argc > 1 ? (size_t)strtod(argv[1], NULL) : 25000000;
    const char *up = argc > 2 ? argv[2] : "sbc:p=0.01";
    const char *down = argc > 3 ? argv[3] : "sbc:p=0.01";
    printf("%s up, %s down\n\n", up, down);
    printf("| values | made in a | last, ms | longest | beside | version | memory, MB |\n");
    printf("|---|---|---|---|---|---|---|\n");
    fflush(stdout);
    /* Each run has a process of its own, because the process's largest memory is measured. */
    for (int apart = 0; apart < 2; apart++) {
        const pid_t child = fork();
        if (child == 0) {
            measure(values, up, down, apart == 1);
            _exit(0);
        }
        int how = 1;
        bench_require(child > 0 && waitpid(child, &how, 0) == child && how == 0 ? FED_OK : FED_EIO,
                      "a measurement ended early");
    }
    return 0;
}
