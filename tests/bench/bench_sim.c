/* Measure a simulation in one process: the share of training in its CPU time, and its memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "bench.h"
#include "deploy/sim/run.h"

/*
 *     bench_sim TASK DATA CLIENTS [THREADS]
 *
 * TASK: a task file; DATA: the directory of MNIST's files.
 */

static void no_progress(void *user, const sim_progress *progress) {
    (void)user;
    (void)progress;
}

int main(int argc, char **argv) {
    static const atomic_int never;
    if (argc < 4) {
        fprintf(stderr, "usage: bench_sim TASK DATA CLIENTS [THREADS]\n");
        return 2;
    }
    const sim_options options = {.transport = SIM_INPROC,
                                 .task = argv[1],
                                 .data = argv[2],
                                 .dataset = "mnist",
                                 .clients = (uint32_t)strtoul(argv[3], NULL, 10),
                                 .threads = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 2,
                                 .evaluate_every = 1000,
                                 .seed = 1};
    const sim_watch watch = {.progress = no_progress, .stop = &never};
    sim_log log = {0};
    fed_error err = {0};
    const double start = bench_now_s();
    bench_require(sim_run(&options, &watch, &log, &err), err.text);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double rest = log.total_cpu_s - log.train_cpu_s - log.evaluate_cpu_s;
    printf("%u clients, %zu rounds: %.1f s in all, %.1f s of them the rounds\n", options.clients,
           log.round_count, bench_now_s() - start, log.wall_s);
    printf("CPU s: training %.1f, testing %.1f, all the rest %.1f; training's share %.1f %%\n",
           log.train_cpu_s, log.evaluate_cpu_s, rest,
           100.0 * log.train_cpu_s / (log.total_cpu_s - log.evaluate_cpu_s));
    printf("accuracy %.4f, resident memory at most %.0f MB\n", sim_log_accuracy(&log),
           (double)used.ru_maxrss / 1024);
    sim_log_free(&log);
    return 0;
}
