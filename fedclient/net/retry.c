/* The waits after failures: exponential back-off with jitter; hours after a refusal. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fed/rng.h"
#include "fedclient/net/requests.h"

/* The longest wait is a minute, so that devices soon come back after a coordinator's restart. A
 * refusal can be changed only by a person, so a device then waits for hours.
 *
 * A coordinator with very many devices tells them longer waits in its answers. A device with a
 * longer told wait waits up to that wait, and at first up to 1/TOLD_PART of it. So the devices do
 * not overload the coordinator after an outage. */
enum { FIRST_MS = 400, LAST_MS = 60000, DOUBLINGS = 8, TOLD_PART = 32 };
enum { REFUSED_MS = 4 * 3600 * 1000 };

/* Each device has its own random waits, so that devices that were cut off together do not come back
 * together. */
static void open_jitter(fed_rng *rng, const char *device, unsigned failures) {
    fed_rng_init(rng, fed_digest_bytes(device, strlen(device)), failures, 0);
}

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

uint32_t fedclient_backoff_draw(uint32_t failures, uint32_t told_ms, fed_rng *rng) {
    const unsigned doublings = failures > 0 ? failures - 1 : 0;
    const uint64_t first_ms = larger(FIRST_MS, told_ms / TOLD_PART);
    const uint64_t grown_ms = first_ms << (doublings < DOUBLINGS ? doublings : DOUBLINGS);
    const uint32_t last_ms = larger(LAST_MS, told_ms);
    const uint32_t most_ms = grown_ms < last_ms ? (uint32_t)grown_ms : last_ms;
    return most_ms / 2 + fed_rng_below(rng, most_ms / 2 + 1);
}

uint32_t fedclient_backoff_ms(const char *device, unsigned failures, uint32_t told_ms) {
    fed_rng rng;
    open_jitter(&rng, device, failures);
    return fedclient_backoff_draw(failures, told_ms, &rng);
}

uint32_t fedclient_refused_ms(const char *device) {
    fed_rng rng;
    open_jitter(&rng, device, 0);
    return REFUSED_MS / 5 * 4 + fed_rng_below(&rng, REFUSED_MS / 5 * 2 + 1);
}
