/* Tables of the five values in each byte of 3LC's base-3^5 encoding. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/quartic.h"

#define VALUES(b) {(b) / 81 - 1, (b) / 27 % 3 - 1, (b) / 9 % 3 - 1, (b) / 3 % 3 - 1, (b) % 3 - 1},

const int8_t fedcodec_quartic_values[FEDCODEC_QUARTIC_BYTES][FEDCODEC_QUARTIC_DIGITS] = {
    FEDCODEC_QUARTIC_EACH(VALUES)};

bool fedcodec_quartic_valid(const uint8_t *src, size_t len, size_t n) {
    uint8_t beyond = 0, sent = 0;
    for (size_t i = 0; i < len; i++) {
        beyond |= src[i] >= FEDCODEC_QUARTIC_BYTES;
        sent |= src[i] != FEDCODEC_QUARTIC_ZERO;
    }
    if (beyond != 0 || sent == 0) {
        return false;
    }
    for (size_t at = n; at < FEDCODEC_QUARTIC_DIGITS * len; at++) {
        if (fedcodec_quartic_values[src[at % len]][at / len] != 0) {
            return false;
        }
    }
    return true;
}
