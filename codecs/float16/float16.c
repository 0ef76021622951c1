/* float16: each value as the nearest IEEE 754 binary16. Format: docs/codec-formats.md#float16 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/narrow.h"
#include "codecs/registry.h"

enum {
    REBIAS = (127 - 15) << 23, /* difference of the exponents' biases */
    NORMAL = (127 - 14) << 23, /* bits of 2^-14, the least normal half */
    LARGEST = 0x477fe000,      /* bits of 65504 */
    INFINITE = 0x7c00
};

static const fedcodec_param float16_params[] = {{.key = NULL}};

/* Return a if holds is true, else b. Masks instead of "?:" help compilers to vectorise the loop. */
static inline uint32_t choose(bool holds, uint32_t a, uint32_t b) {
    return b ^ ((a ^ b) & (0u - (uint32_t)holds));
}

static inline uint16_t to_half(float v) {
    uint32_t bits = fedcodec_bits(v), m = bits & FEDCODEC_MAGNITUDE;
    m = m < LARGEST ? m : LARGEST;
    uint32_t normal = (m - REBIAS + 0xfff + (m >> 13 & 1)) >> 13;
    /* Magnitudes below 2^-14 are denormal halves, multiples of 2^-24. Adding 0.5 rounds to such a
     * multiple, since 2^-24 is the last bit of a float32 near 0.5. */
    uint32_t small = fedcodec_bits(fedcodec_float(m) + 0.5f) - fedcodec_bits(0.5f);
    return (uint16_t)((bits >> 16 & 0x8000) | choose(m < NORMAL, small, normal));
}

static inline float from_half(uint16_t v) {
    uint32_t sign = (uint32_t)(v & 0x8000) << 16, m = v & 0x7fff;
    uint32_t normal = (m << 13) + REBIAS;
    uint32_t small = fedcodec_bits((float)(int)m * 0x1p-24f);
    return fedcodec_float(sign | choose(m < 0x400, small, normal));
}

FEDCODEC_NARROW_FUNCTIONS(to_half, from_half, INFINITE)

const fedcodec_vtable FEDCODEC_VTABLE(float16) = {
    .id = FEDCODEC_ID_float16,
    .name = "float16",
    .about = "each value as the nearest half (IEEE 754 binary16)",
    .params = float16_params,
    FEDCODEC_NARROW_MEMBERS,
};
