/* Measure a coordinator with a million devices: throughput, times and memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crowd.h"

/*
 *     bench_crowd DIRECTORY [devices=1000000] [minutes=60] [cohort=1000] [outage=300]
 *                 [most=SECONDS] [codec=sbc:p=0.01]
 *
 * It makes a coordinator in DIRECTORY, which must not exist and is not removed. Virtual devices
 * check in, download the model and send made-up updates, in one process without TLS and sockets.
 * Time is virtual. Halfway the coordinator is away for `outage` seconds. After `most` seconds of
 * real time the run ends early.
 * The devices' updates are all the same message of `codec`.
 */

enum { ROWS = 12 };

typedef struct options {
    uint32_t devices, minutes, cohort, outage, most;
    const char *codec;
} options;

static bool take(const char *text, options *o) {
    static const char *const names[] = {"devices=", "minutes=", "cohort=", "outage=", "most="};
    uint32_t *const values[] = {&o->devices, &o->minutes, &o->cohort, &o->outage, &o->most};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        const size_t len = strlen(names[k]);
        if (strncmp(text, names[k], len) == 0) {
            *values[k] = (uint32_t)strtoul(text + len, NULL, 10);
            return true;
        }
    }
    if (strncmp(text, "codec=", 6) == 0) {
        o->codec = text + 6;
        return true;
    }
    return false;
}

static double resident_mb(void) {
    unsigned long total, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f != NULL) {
        if (fscanf(f, "%lu %lu", &total, &resident) != 2) {
            resident = 0;
        }
        fclose(f);
    }
    return 1e-6 * (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static void print_row(const crowd *all, const crowd_counts *c, uint32_t from_s, uint32_t to_s) {
    const double seconds = to_s - from_s;
    const double requests = (double)(c->checkins + c->downloads + c->updates);
    printf("| %u:%02u | %.0f | %llu | %.1f | %u | %.1f | %.2f, %.2f, %.1f | %.0f | %.2f, %.2f "
           "| %.0f |\n",
           to_s / 60, to_s % 60, (double)c->checkins / seconds, (unsigned long long)c->busiest,
           (double)c->counted / seconds, crowd_version(all),
           requests > 0.0 ? 1e6 * c->cpu_s / requests : 0.0, 1e3 * crowd_quantile(c, 0.5),
           1e3 * crowd_quantile(c, 0.99), 1e3 * c->longest_s, (double)c->failed / seconds,
           1e-6 * (double)c->up_bytes / seconds, 1e-6 * (double)c->down_bytes / seconds,
           resident_mb());
    fflush(stdout);
}

int main(int argc, char **argv) {
    options o = {.devices = 1000000, .minutes = 60, .cohort = 1000, .outage = 300};
    o.codec = "sbc:p=0.01";
    bool valid = argc > 1;
    for (int k = 2; k < argc; k++) {
        valid = valid && take(argv[k], &o);
    }
    if (!valid || o.devices == 0 || o.minutes == 0 || o.cohort < 4) {
        fprintf(stderr, "usage: bench_crowd DIRECTORY [devices=N] [minutes=N] [cohort=N, from 4] "
                        "[outage=SECONDS] [most=SECONDS] [codec=SPEC]\n");
        return 2;
    }
    const double start_s = bench_now_s();
    crowd *c = crowd_open(argv[1], o.devices, o.cohort, o.codec);
    printf("%u devices, enrolled in %.0f s; the coordinator starts in %.3f s\n\n", o.devices,
           bench_now_s() - start_s, crowd_start_s(c));
    puts("| until | check-ins/s | busiest second | updates/s | version | CPU us a request "
         "| batch: p50, p99, most, ms | failed/s | MB/s up, down | resident, MB |\n"
         "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    const uint32_t end_s = 60 * o.minutes, away_s = end_s / 2;
    uint32_t from_s = 0;
    double cpu_s = 0.0;
    uint64_t updates = 0;
    for (uint32_t s = 0; s < end_s && (o.most == 0 || bench_now_s() - start_s < o.most); s++) {
        crowd_second(c, s >= away_s && s - away_s < o.outage);
        if ((s + 1) % (end_s / ROWS) == 0) {
            print_row(c, crowd_counted(c), from_s, s + 1);
            cpu_s += crowd_counted(c)->cpu_s;
            updates += crowd_counted(c)->counted;
            *crowd_counted(c) = (crowd_counts){0};
            from_s = s + 1;
        }
    }
    double mean, spread;
    crowd_fairness(c, &mean, &spread);
    printf("\na device trained %.4f times; variance over mean: %.3f\n", mean, spread);
    printf("%.3f s of CPU for %llu updates that count\n", cpu_s, (unsigned long long)updates);
    crowd_close(c);
    return 0;
}
