/* Pace steering: a wait, spread over a window that follows the number of devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/pace.h"

/* A check-in costs the coordinator some 20 us of CPU time, and one on a new connection 1 ms: 100 a
 * second are a tenth of a core at worst. A quarter of an hour is what Google's client waits after a
 * transient refusal; a device that stayed away for longer would miss whole rounds. */
enum { MS_A_DEVICE = 20, WINDOW_MOST_MS = 15 * 60 * 1000 };

uint32_t fedserver_pace_ms(uint32_t least_ms, uint64_t devices, uint32_t random) {
    uint64_t window =
        devices < WINDOW_MOST_MS / MS_A_DEVICE ? devices * MS_A_DEVICE : WINDOW_MOST_MS;
    if (window < least_ms / 2) {
        window = least_ms / 2;
    }
    return least_ms / 4 * 3 + (uint32_t)(window * random >> 32);
}
