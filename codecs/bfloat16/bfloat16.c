/* bfloat16: the upper half of each float32, rounded. Format: docs/codec-formats.md#bfloat16 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/narrow.h"
#include "codecs/registry.h"

enum { LARGEST = 0x7f7f0000, INFINITE = 0x7f80 }; /* bits: of a float32, of a bfloat16 */

static const fedcodec_param bfloat16_params[] = {{.key = NULL}};

static inline uint16_t to_bfloat16(float v) {
    uint32_t bits = fedcodec_bits(v), m = bits & FEDCODEC_MAGNITUDE;
    m = m < LARGEST ? m : LARGEST;
    uint32_t rounded = (m + 0x7fff + (m >> 16 & 1)) >> 16;
    return (uint16_t)((bits >> 16 & 0x8000) | rounded);
}

static inline float from_bfloat16(uint16_t v) {
    return fedcodec_float((uint32_t)v << 16);
}

FEDCODEC_NARROW_FUNCTIONS(to_bfloat16, from_bfloat16, INFINITE)

const fedcodec_vtable FEDCODEC_VTABLE(bfloat16) = {
    .id = FEDCODEC_ID_bfloat16,
    .name = "bfloat16",
    .about = "the upper half of each float32, rounded",
    .params = bfloat16_params,
    FEDCODEC_NARROW_MEMBERS,
};
