/* Digests by XXH3-64, which is compiled in from its header, and hexadecimal text. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fed/cpu.h"

/* On x86-64 CMakeLists.txt compiles this file once more, with AVX2 and FED_HASH_V3: then it has
 * only this function, which takes half as long as with the SSE2 that each x86-64 has. */
uint64_t fed_hash_v3(const void *data, size_t len);

#ifdef FED_HASH_V3

uint64_t fed_hash_v3(const void *data, size_t len) {
    return XXH3_64bits(data, len);
}

#else

_Static_assert(sizeof(float) == sizeof(uint32_t), "values are hashed as IEEE binary32");

void fed_hex(const uint8_t *src, size_t len, char *dst) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        dst[2 * i] = digits[src[i] >> 4];
        dst[2 * i + 1] = digits[src[i] & 15];
    }
    dst[2 * len] = '\0';
}

/* Return the value of a hex digit, or -1. isxdigit would depend on the locale. */
static int digit_value(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

fed_status fed_unhex(const char *text, uint8_t *dst, size_t len) {
    for (size_t i = 0; i < 2 * len; i++) { /* stops at the NUL of a short text */
        FED_REQUIRE(digit_value(text[i]) >= 0, FED_EFORMAT);
    }
    FED_REQUIRE(text[2 * len] == '\0', FED_EFORMAT);
    for (size_t i = 0; i < len; i++) {
        dst[i] = (uint8_t)(digit_value(text[2 * i]) * 16 + digit_value(text[2 * i + 1]));
    }
    return FED_OK;
}

uint64_t fed_digest_bytes(const void *data, size_t len) {
#ifdef FED_HAS_HASH_V3
    if (fed_cpu_runs_v3()) {
        return fed_hash_v3(data, len);
    }
#endif
    return XXH3_64bits(data, len);
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

uint64_t fed_digest(const float *values, size_t n) {
    return fed_digest_bytes(values, n * sizeof *values);
}

#else

/* Blocks are converted to little-endian bytes, so that every machine hashes the same bytes. */
uint64_t fed_digest(const float *values, size_t n) {
    enum { BLOCK = 256 };
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    (void)XXH3_64bits_reset(&state);
    for (size_t start = 0; start < n; start += BLOCK) {
        uint8_t bytes[BLOCK * sizeof(uint32_t)];
        size_t count = n - start < BLOCK ? n - start : BLOCK;
        for (size_t i = 0; i < count; i++) {
            uint32_t bits;
            memcpy(&bits, &values[start + i], sizeof bits);
            for (size_t k = 0; k < sizeof bits; k++) {
                bytes[i * sizeof bits + k] = (uint8_t)(bits >> (8 * k));
            }
        }
        (void)XXH3_64bits_update(&state, bytes, count * sizeof(uint32_t));
    }
    return XXH3_64bits_digest(&state);
}

#endif

#endif
