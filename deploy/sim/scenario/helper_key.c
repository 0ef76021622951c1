/* The key of a simulation's helper, made from the seed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/scenario/helper_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fed/hash.h"

fed_status sim_helper_key(uint64_t seed, uint8_t secret[FED_POINT_SECRET],
                          uint8_t key[FED_SEAL_KEY], fed_error *err) {
    char text[64];
    snprintf(text, sizeof text, "fedsim helper %" PRIu64, seed);
    fed_sha256(text, strlen(text), secret);
    return fed_point_of(secret, key, err);
}

fed_status sim_helper_hex(uint64_t seed, char hex[SIM_HELPER_HEX], fed_error *err) {
    uint8_t secret[FED_POINT_SECRET], key[FED_SEAL_KEY];
    FED_TRY(sim_helper_key(seed, secret, key, err));
    fed_hex(key, sizeof key, hex);
    return FED_OK;
}
