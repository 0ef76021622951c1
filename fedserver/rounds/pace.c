/* Spreads devices' waits over a window that grows with the number of devices ("pace steering"). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/pace.h"

/* Waits spread over 20 ms a device are 10 ms a device on average: 100 check-ins a second. At up to
 * about 1 ms of CPU time each they need a tenth of a core. */
enum { MS_A_DEVICE = 20, WINDOW_MOST_MS = 15 * 60 * 1000 };

uint32_t fedserver_pace_ms(uint32_t least_ms, uint64_t devices, uint32_t random) {
    uint64_t window =
        devices < WINDOW_MOST_MS / MS_A_DEVICE ? devices * MS_A_DEVICE : WINDOW_MOST_MS;
    if (window < least_ms / 2) {
        window = least_ms / 2;
    }
    return least_ms / 4 * 3 + (uint32_t)(window * random >> 32);
}
