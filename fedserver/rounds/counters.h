/* What has happened in the rounds since this process started to serve. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_COUNTERS_H
#define FEDSERVER_COUNTERS_H

#include <stdint.h>

enum { FEDSERVER_ROUND_TIMES = 15 };

typedef struct fedserver_counters {
    uint64_t rounds_committed, attempts_abandoned;
    uint64_t round_times[FEDSERVER_ROUND_TIMES]; /* rounds by how long they took */
    double round_seconds;                        /* together */
    uint64_t updates_counted, updates_repeated, updates_closed, updates_expired, updates_unknown,
        updates_stale, updates_cloned;
    uint64_t updates_bad, updates_out_of_range, updates_too_large;
    uint64_t declines;
    uint64_t assignments[4]; /* by fed_action; held requests count when they are answered */
} fedserver_counters;

/** Seconds, ascending: rounds of round_times[k] took at most bounds[k]; those of the last took
 * longer. */
extern const double fedserver_round_bounds[FEDSERVER_ROUND_TIMES - 1];

/** A round was committed that took so long. */
void fedserver_counters_round(fedserver_counters *counters, int64_t took_ms);

#endif
