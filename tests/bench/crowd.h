/* A crowd of virtual devices: made-up updates, virtual time, a real coordinator's request
 * function. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CROWD_H
#define CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench.h"
#include "fed/bytes.h"
#include "fedserver/fedserver.h"

/** Answers to a crowd's requests, and their cost. Zero it to start counting again. */
typedef struct crowd_counts {
    uint64_t checkins, leases, downloads, updates, counted, refused, failed;
    uint64_t up_bytes, down_bytes; /* bytes of requests' and answers' bodies */
    uint64_t busiest;              /* most requests in a second */
    double cpu_s;
    uint64_t batches;
    uint32_t took[64]; /* [k]: batches of 2^((k - 1) / 2) us to less than 2^(k / 2) us */
    double longest_s;
} crowd_counts;

typedef struct crowd crowd;

/** Enrol the devices in a new coordinator in `directory`, which must not exist, and queue a task
 * with this cohort. The store is written directly: no keys, no certificates. */
crowd *crowd_open(const char *directory, uint32_t devices, uint32_t cohort);
void crowd_close(crowd *c);

/** Let one second pass. In an outage the coordinator answers nobody, and devices back off as
 * fedclient does. */
void crowd_second(crowd *c, bool outage);

crowd_counts *crowd_counted(crowd *c);

/** Return how many seconds the coordinator's start took. The devices had enrolled before. */
double crowd_start_s(const crowd *c);

uint32_t crowd_version(const crowd *c);

/** Return how often a device has trained: the mean over all devices, and the variance divided by
 * the mean. The latter is near 1 if chance alone decides. */
void crowd_fairness(const crowd *c, double *mean, double *spread);

/** Return the number of seconds within which this share of all batches is done. */
double crowd_quantile(const crowd_counts *counts, double share);

#endif
