/* Counters of what has happened in the rounds since this process started to serve. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_COUNTERS_H
#define FEDSERVER_COUNTERS_H

#include <stdint.h>

enum { FEDSERVER_ROUND_TIMES = 15 };

typedef struct fedserver_counters {
    uint64_t rounds_committed, attempts_abandoned;
    uint64_t round_times[FEDSERVER_ROUND_TIMES]; /* number of rounds for each range of durations */
    double round_seconds;
    uint64_t updates_counted, updates_repeated, updates_closed, updates_expired, updates_unknown,
        updates_stale, updates_cloned;
    uint64_t updates_bad, updates_out_of_range, updates_too_large;
    uint64_t declines;
    uint64_t cache_downloads; /* answers to downloads that redirected to a cache */
    uint64_t cache_download_bytes;
    uint64_t assignments[4]; /* answers to check-ins, by fed_action */
} fedserver_counters;

/** Upper bounds in seconds, ascending. A round in round_times[k] took at most
 * fedserver_round_bounds[k]; a round in the last element took longer than all bounds. */
extern const double fedserver_round_bounds[FEDSERVER_ROUND_TIMES - 1];

void fedserver_counters_round(fedserver_counters *counters, int64_t took_ms);

#endif
