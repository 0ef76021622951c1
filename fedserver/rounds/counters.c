/* Counts what has happened in the rounds since this process started to serve. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/counters.h"

#include <stddef.h>

const double fedserver_round_bounds[FEDSERVER_ROUND_TIMES - 1] = {
    0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 21600, 86400};

void fedserver_counters_round(fedserver_counters *counters, int64_t took_ms) {
    const double seconds = took_ms > 0 ? (double)took_ms / 1000.0 : 0;
    size_t k = 0;
    while (k < FEDSERVER_ROUND_TIMES - 1 && seconds > fedserver_round_bounds[k]) {
        k++;
    }
    counters->round_times[k]++;
    counters->round_seconds += seconds;
}
