/* Compare the CPU time of a check-in that the leader serves with that of one that a follower passes
 * on to it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed/wire.h"
#include "fed_cluster.h"
#include "fed_load.h"
#include "fed_postgres.h"
#include "fed_test.h"
#include "fedserver/server.h"

/*
 *     bench_cluster [ROUNDS]
 *
 * A leader and a follower share a PostgreSQL server that is started for this run. In each round
 * the leader, and then the follower, gets check-ins on its own 32 connections, which stay open, and
 * then check-ins that each come on a new connection with a full handshake.
 */

enum { DEVICES = 64, ACTIVE = 32, CHECKINS = 8000, LIMIT_S = 60, MEMBERS = 2, PARALLEL = 8 };
enum { LEADER = 0, FOLLOWER = 1 };

typedef struct world {
    char directory[200];
    fed_postgres database;
    fed_cluster cluster;
    fed_pem keys[DEVICES], certs[DEVICES];
    fed_load *kept[MEMBERS];
    size_t left;
} world;

/* For each member: its CPU time for one check-in, in microseconds. */
typedef struct cost {
    bench_times us[MEMBERS];
} cost;

static void read_ca(const world *w, const char *name, fed_pem *pem) {
    char path[400];
    uint8_t *text = NULL;
    size_t len = 0;
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/%s", w->cluster.member[0].directory, name);
    bench_require(fed_file_read(path, sizeof pem->text - 1, &text, &len, &err), name);
    memcpy(pem->text, text, len + 1);
    free(text);
}

static void enrol(world *w) {
    fed_error err = {0};
    fedserver *server = NULL;
    fed_pem ca_key, ca, csr;
    const int64_t now_ms = fed_clock_unix_ms();
    read_ca(w, "ca.key", &ca_key);
    read_ca(w, "ca.pem", &ca);
    const fed_cert_options options = {.purpose = FED_CERT_CLIENT,
                                      .common_name = "device",
                                      .not_before = now_ms / 1000 - 3600,
                                      .not_after = now_ms / 1000 + 86400};
    bench_require(fedserver_open(w->cluster.member[0].directory, NULL, &server, &err), "open");
    for (size_t k = 0; k < DEVICES; k++) {
        fedserver_device device = {.enrolled_ms = now_ms, .expires_ms = now_ms + 86400000};
        bench_require(fed_key_new(&w->keys[k], &err), "key");
        bench_require(fed_csr_new(&w->keys[k], "device", &csr, &err), "request");
        bench_require(fed_cert_issue(&ca_key, &ca, csr.text, &options, &w->certs[k], &err),
                      "certificate");
        bench_require(fed_cert_key_fingerprint(w->certs[k].text, device.fingerprint, &err),
                      "fingerprint");
        bench_require(server->store->device_add(server->db, &device, &err), "device");
    }
    bench_require(server->store->commit(server->db, &err), "commit");
    fedserver_close(server);
}

static double cpu_us(const world *w, unsigned k) {
    clockid_t clock;
    struct timespec t = {0};
    bench_require(clock_getcpuclockid(w->cluster.member[k].pid, &clock) == 0 ? FED_OK : FED_EIO,
                  "the clock of a process");
    (void)clock_gettime(clock, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void ask(void *user, size_t k, fed_writer *request) {
    world *w = user;
    uint8_t bytes[64];
    fed_writer body;
    (void)k;
    if (w->left == 0) {
        return;
    }
    w->left--;
    fed_writer_fixed(&body, bytes, sizeof bytes);
    fed_checkin_write(&body, &(fed_checkin){.role = FED_ROLE_TRAIN});
    fed_write_printf(request,
                     "POST /v1/checkin HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n\r\n",
                     body.len);
    fed_write_bytes(request, body.data, body.len);
}

static void must_be_200(void *user, size_t k, const fed_load_answer *answer) {
    (void)user, (void)k;
    bench_require(answer->status == 200 ? FED_OK : FED_ESTATE, "an answer of 200");
}

static fed_load *connect_to(world *w, unsigned member, size_t count) {
    double seconds = 0;
    fed_load *load = fed_load_open(w->cluster.devices, w->keys, w->certs, count);
    bench_require(load != NULL ? FED_OK : FED_ENOMEM, "connections");
    fed_load_toward(load, w->cluster.member[member].bind);
    bench_require(fed_load_connect(load, PARALLEL, &seconds) == count ? FED_OK : FED_ENET,
                  "all connections");
    return load;
}

/* Do `count` check-ins at this member. anew: each on a new connection. */
static void run_checkins(world *w, unsigned member, size_t count, bool anew, cost *c) {
    double before[MEMBERS];
    for (unsigned k = 0; k < MEMBERS; k++) {
        before[k] = cpu_us(w, k);
    }
    w->left = count;
    fed_load *load = anew ? connect_to(w, member, count) : w->kept[member];
    const fed_load_result r =
        fed_load_run(load, 0, anew ? count : ACTIVE, ask, must_be_200, w, LIMIT_S);
    bench_require(r.answers == count ? FED_OK : FED_ENET, "all answers");
    if (anew) {
        fed_load_close(load);
    }
    for (unsigned k = 0; k < MEMBERS; k++) {
        c->us[k].s[c->us[k].count++] = (cpu_us(w, k) - before[k]) / (double)count;
    }
}

static void open_world(world *w) {
    char store[400];
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_postgres_open(&w->database);
    snprintf(store, sizeof store, "postgres:%s", w->database.where);
    fed_cluster_open(&w->cluster, w->directory, store, MEMBERS);
    w->cluster.requests = 1000000;
    enrol(w);
    /* Started alone, this coordinator becomes the leader. */
    fed_cluster_start_ready(&w->cluster, LEADER);
    while (fed_cluster_leader(&w->cluster, NULL) != LEADER) {
        fed_sleep_ms(10);
    }
    fed_cluster_start_ready(&w->cluster, FOLLOWER);
    while (fed_cluster_says(&w->cluster, FOLLOWER, "requests are passed on") == 0) {
        fed_sleep_ms(10);
    }
    for (unsigned k = 0; k < MEMBERS; k++) {
        w->kept[k] = connect_to(w, k, ACTIVE);
    }
}

static void close_world(world *w) {
    for (unsigned k = 0; k < MEMBERS; k++) {
        fed_load_close(w->kept[k]);
    }
    fed_cluster_close(&w->cluster);
    fed_postgres_close(&w->database);
    fed_test_rmdir(w->directory);
}

static void print(const char *what, cost of[MEMBERS]) {
    const double own = bench_median_s(&of[LEADER].us[LEADER]);
    const double carried = bench_median_s(&of[FOLLOWER].us[LEADER]);
    printf("| %-22s | %7.1f | %7.1f | %5.2f | %7.1f |\n", what, own, carried, own / carried,
           bench_median_s(&of[FOLLOWER].us[FOLLOWER]));
}

int main(int argc, char **argv) {
    static world w;
    static cost open_ones[MEMBERS], new_ones[MEMBERS];
    const unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 7;
    if (rounds == 0 || rounds > BENCH_ROUNDS_MAX || !fed_postgres_is_there()) {
        fprintf(stderr, "usage: bench_cluster [ROUNDS], where PostgreSQL is installed\n");
        return 2;
    }
    open_world(&w);
    for (unsigned long k = 0; k < rounds; k++) {
        for (unsigned member = 0; member < MEMBERS; member++) {
            run_checkins(&w, member, CHECKINS, false, &open_ones[member]);
            run_checkins(&w, member, DEVICES, true, &new_ones[member]);
        }
    }
    close_world(&w);
    printf("CPU time of a check-in in us, medians of %lu rounds in turn\n\n"
           "| connection             | leader, its own | leader, passed on | ratio | follower |\n"
           "|---|---|---|---|---|\n",
           rounds);
    print("stays open", open_ones);
    print("new, full handshake", new_ones);
    return 0;
}
