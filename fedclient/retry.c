/* How long to wait after failures: exponential back-off with jitter, hours after a refusal. */
#include <string.h>

#include "fed/rng.h"
#include "fedclient/client.h"

/* A minute at most: a coordinator that was restarted finds its devices again at once, and 4,000 of
 * them make about 90 connections a second, a tenth of its processor. Google's client waits a
 * quarter of an hour here, and as long as ours after a refusal. */
enum { FIRST_MS = 400, LAST_MS = 60000, DOUBLINGS = 8, REFUSED_MS = 4 * 3600 * 1000 };

/* The jitter is the device's own, so that a crowd cut off at once does not come back at once. */
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
