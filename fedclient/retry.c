/* How long to wait after failures: exponential back-off with jitter, hours after a refusal. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fed/rng.h"
#include "fedclient/client.h"

/* A minute at most, so that devices soon come back after a coordinator's restart. 4,000 devices
 * then make about 90 connections a second, which takes a tenth of its processor. Google's client
 * waits a quarter of an hour after a failure, and as long as ours after a refusal. */
enum { FIRST_MS = 400, LAST_MS = 60000, DOUBLINGS = 8, REFUSED_MS = 4 * 3600 * 1000 };

/* Each device has its own jitter, so that devices cut off at once do not come back at once. */
static void open_jitter(fed_rng *rng, const char *device, unsigned failures) {
    fed_rng_init(rng, fed_digest_bytes(device, strlen(device)), failures, 0);
}

uint32_t fedclient_backoff_draw(uint32_t failures, fed_rng *rng) {
    unsigned doublings = failures > 0 ? failures - 1 : 0;
    uint32_t most = (uint32_t)FIRST_MS << (doublings < DOUBLINGS ? doublings : DOUBLINGS);
    if (most > LAST_MS) {
        most = LAST_MS;
    }
    return most / 2 + fed_rng_below(rng, most / 2 + 1);
}

uint32_t fedclient_backoff_ms(const char *device, unsigned failures) {
    fed_rng rng;
    open_jitter(&rng, device, failures);
    return fedclient_backoff_draw(failures, &rng);
}

uint32_t fedclient_refused_ms(const char *device) {
    fed_rng rng;
    open_jitter(&rng, device, 0);
    return REFUSED_MS / 5 * 4 + fed_rng_below(&rng, REFUSED_MS / 5 * 2 + 1);
}
