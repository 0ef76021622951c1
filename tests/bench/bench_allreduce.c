/*
 * Measure how fast MPI_Allreduce sums float32 gradients. mpirun starts this program as each rank.
 *
 *     mpirun -n 4 bench_allreduce floats=430000 steps=20
 *
 * Rank 0 prints the median, least and largest time of a step, and its own CPU time for a step.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum { WARM_UP = 2 };

static unsigned long option(int argc, char **argv, const char *name, unsigned long usual) {
    for (int k = 1; k < argc; k++) {
        if (strncmp(argv[k], name, strlen(name)) == 0) {
            return strtoul(argv[k] + strlen(name), NULL, 10);
        }
    }
    return usual;
}

int main(int argc, char **argv) {
    static bench_times times;
    size_t floats = option(argc, argv, "floats=", 430000);
    unsigned long steps = option(argc, argv, "steps=", 20);
    int rank = 0;
    double cpu = 0;
    if (floats == 0 || floats > INT_MAX || steps == 0 || steps > BENCH_ROUNDS_MAX - WARM_UP) {
        fprintf(stderr, "usage: bench_allreduce floats=N steps=N, where both are at least 1\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    float *grad = bench_alloc(floats * sizeof *grad), *sum = bench_alloc(floats * sizeof *sum);
    for (size_t i = 0; i < floats; i++) {
        grad[i] = 1e-3f * (float)(i % 1000);
    }
    for (unsigned long t = 0; t < steps + WARM_UP; t++) {
        if (t == WARM_UP) {
            cpu = bench_clock_s(CLOCK_PROCESS_CPUTIME_ID);
            times.count = 0;
        }
        BENCH_TIME(&times,
                   MPI_Allreduce(grad, sum, (int)floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
    }
    cpu = (bench_clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (double)steps;
    if (rank == 0) {
        /* bench_median_s has sorted the times */
        double median = bench_median_s(&times);
        printf("{\"floats\": %zu, \"seconds\": %.6g, \"fastest\": %.6g, \"slowest\": %.6g, "
               "\"cpu\": %.6g}\n",
               floats, median, times.s[0], times.s[times.count - 1], cpu);
    }
    free(grad);
    free(sum);
    MPI_Finalize();
    return 0;
}
