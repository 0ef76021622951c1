/*
 * Four workers, each with points of its own, fit one line to all points by exchanging gradients.
 *
 *     allreduce threads              four threads of one process
 *     mpirun -n 4 allreduce mpi      four processes, on one machine or several
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "feddc/exchange.h"

enum { WORKERS = 4, POINTS = 100, STEPS = 300 };

/** The gradient of a worker's own points, which all lie on y = 3 x + 1. */
static void compute(uint32_t rank, const float line[2], float grad[2]) {
    grad[0] = grad[1] = 0.0f;
    for (uint32_t k = POINTS * rank; k < POINTS * (rank + 1); k++) {
        float x = (float)k / (WORKERS * POINTS);
        float error = line[0] * x + line[1] - (3.0f * x + 1.0f);
        grad[0] += error * x;
        grad[1] += error;
    }
}

static void *work(void *arg) {
    const feddc_exchange_options *options = arg;
    const float rate = 1.2f / (WORKERS * POINTS);
    float line[2] = {0.0f, 0.0f}, grad[2], sum[2];
    feddc_exchange *x = NULL;
    fed_error err = {0};
    fed_status status = feddc_exchange_open(options, &x, &err);
    for (uint32_t step = 0; step < STEPS && status == FED_OK; step++) {
        compute(options->place.rank, line, grad);
        /* with options->codec or options->nic call feddc_allreduce_compressed instead */
        status = feddc_allreduce(x, step, grad, sum, &err);
        line[0] -= rate * sum[0];
        line[1] -= rate * sum[1];
    }
    feddc_exchange_close(x, status == FED_OK);
    if (status != FED_OK) {
        fprintf(stderr, "allreduce: rank %u failed: %s\n", options->place.rank, err.text);
        exit(1);
    }
    printf("rank %u: y = %.3f x + %.3f\n", options->place.rank, (double)line[0], (double)line[1]);
    return NULL;
}

int main(int argc, char **argv) {
    const size_t tensors[] = {1, 1};
    feddc_exchange_options group[WORKERS] = {
        {.link = argc == 2 ? feddc_link_named(argv[1]) : NULL}};
    pthread_t thread[WORKERS];
    fed_error err = {0};
    if (group[0].link == NULL) {
        fprintf(stderr, "usage: allreduce threads, or mpirun -n 4 allreduce mpi\n");
        return 2;
    }
    group[0].tensor = tensors;
    group[0].tensors = 2;
    if (group[0].link->find != NULL) {
        /* Each rank is a process. This process is one of them, and find says which. */
        if (group[0].link->find(&group[0].place, &err) != FED_OK) {
            fprintf(stderr, "allreduce: %s\n", err.text);
            return 1;
        }
        work(&group[0]);
        return 0;
    }
    group[0].place = (feddc_place){.size = WORKERS, .hub = feddc_hub_new(WORKERS)};
    for (uint32_t r = 0; r < WORKERS; r++) {
        group[r] = group[0];
        group[r].place.rank = r;
        if (pthread_create(&thread[r], NULL, work, &group[r]) != 0) {
            return 1;
        }
    }
    for (uint32_t r = 0; r < WORKERS; r++) {
        pthread_join(thread[r], NULL);
    }
    feddc_hub_free(group[0].place.hub);
    return 0;
}
