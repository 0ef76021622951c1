/* A crowd of virtual devices in virtual time, which call a coordinator's request function. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CROWD_H
#define CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench.h"
#include "fed/bytes.h"
#include "fedserver/fedserver.h"

/** Counts of a crowd's requests. Zero it to count anew. */
typedef struct crowd_counts {
    uint64_t checkins, leases, downloads, updates, counted, refused, failed;
    uint64_t up_bytes, down_bytes;
    uint64_t busiest;
    double cpu_s;
    uint64_t batches;
    uint32_t took[64]; /* [k]: number of batches of 2^((k - 1) / 2) us to 2^(k / 2) us */
    double longest_s;
} crowd_counts;

typedef struct crowd crowd;

/** Make a coordinator in `directory`, which must not exist, with enrolled devices and a task.
 * Devices have no keys or certificates. */
crowd *crowd_open(const char *directory, uint32_t devices, uint32_t cohort, const char *up);
void crowd_close(crowd *c);

/** Let one second pass. In an outage the coordinator does not answer. */
void crowd_second(crowd *c, bool outage);

crowd_counts *crowd_counted(crowd *c);

/** Return how many seconds the coordinator's first batch took. */
double crowd_start_s(const crowd *c);

uint32_t crowd_version(const crowd *c);

/** Return the mean number of trainings of a device, and the variance divided by the mean, which is
 * near 1 if devices are chosen at random. */
void crowd_fairness(const crowd *c, double *mean, double *spread);

/** Return a time in seconds within which at least this share of the batches was done. */
double crowd_quantile(const crowd_counts *counts, double share);

#endif
