/* How long to wait after failures: exponential back-off with jitter. */
#include <string.h>

#include "fed/rng.h"
#include "fedclient/client.h"

enum { FIRST_MS = 400, LAST_MS = 60000, DOUBLINGS = 8 };

uint32_t fedclient_backoff_ms(const char *device, unsigned failures) {
    unsigned doublings = failures > 0 ? failures - 1 : 0;
    uint32_t most = (uint32_t)FIRST_MS << (doublings < DOUBLINGS ? doublings : DOUBLINGS);
    if (most > LAST_MS) {
        most = LAST_MS;
    }
    /* The jitter is the device's own, so that a crowd cut off at once does not come back at once.
     */
    fed_rng rng;
    fed_rng_init(&rng, fed_digest_bytes(device, strlen(device)), failures, 0);
    return most / 2 + fed_rng_below(&rng, most / 2 + 1);
}
