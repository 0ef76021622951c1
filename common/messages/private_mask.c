/* Masks of private updates: fields of w bits from AES-256-CTR. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "fed/private_terms.h"
#include "fed/sealed.h"

enum { STREAM = FED_MASK_FIELDS * 32 / 8 };

uint64_t fed_private_packed(unsigned width, uint64_t n) {
    return (n * width + 7) / 8;
}

void fed_private_unpack(const uint8_t *src, unsigned width, uint64_t first, uint32_t *y, size_t n) {
    const uint32_t mask = (uint32_t)(((uint64_t)1 << width) - 1);
    uint64_t bits = 0;
    unsigned have = 0;
    assert(first % 8 == 0);
    src += first / 8 * width;
    for (size_t i = 0; i < n; i++) {
        for (; have < width; have += 8) {
            bits |= (uint64_t)*src++ << have;
        }
        y[i] = (uint32_t)bits & mask;
        bits >>= width;
        have -= width;
    }
}

void fed_private_pack(const uint32_t *y, unsigned width, uint64_t first, uint8_t *dst, size_t n) {
    const uint32_t mask = (uint32_t)(((uint64_t)1 << width) - 1);
    uint64_t bits = 0;
    unsigned have = 0;
    assert(first % 8 == 0);
    dst += first / 8 * width;
    for (size_t i = 0; i < n; i++) {
        bits |= (uint64_t)(y[i] & mask) << have;
        for (have += width; have >= 8; have -= 8) {
            *dst++ = (uint8_t)bits;
            bits >>= 8;
        }
    }
    if (have > 0) {
        *dst = (uint8_t)bits;
    }
}

/* y[i] += field first + i of a stream, n at most FED_MASK_FIELDS. */
static fed_status add_fields(const uint8_t key[FED_SEALED_KEY], unsigned width, uint64_t first,
                             uint32_t *y, size_t n) {
    uint8_t stream[STREAM] = {0}; /* zeros become the stream */
    uint32_t mask[FED_MASK_FIELDS];
    FED_TRY(fed_sealed_crypt(key, first / 8 * width, stream, (size_t)fed_private_packed(width, n)));
    fed_private_unpack(stream, width, 0, mask, n);
    for (size_t i = 0; i < n; i++) {
        y[i] += mask[i];
    }
    return FED_OK;
}

fed_status fed_private_mask(const uint8_t seed[FED_SEED], unsigned width, uint64_t first,
                            uint32_t *y, size_t n) {
    uint8_t key[FED_SEALED_KEY];
    assert(first % FED_MASK_FIELDS == 0 && width >= 1 && width <= 32);
    FED_TRY(fed_hkdf(seed, FED_SEED, "mask", 4, key, sizeof key));
    for (size_t at = 0; at < n; at += FED_MASK_FIELDS) {
        const size_t part = n - at < FED_MASK_FIELDS ? n - at : FED_MASK_FIELDS;
        FED_TRY(add_fields(key, width, first + at, y + at, part));
    }
    return FED_OK;
}

fed_status fed_private_mask_packed(const uint8_t seed[FED_SEED], unsigned width, uint8_t *fields,
                                   size_t n) {
    uint8_t key[FED_SEALED_KEY];
    uint32_t y[FED_MASK_FIELDS];
    FED_TRY(fed_hkdf(seed, FED_SEED, "mask", 4, key, sizeof key));
    for (size_t at = 0; at < n; at += FED_MASK_FIELDS) {
        const size_t part = n - at < FED_MASK_FIELDS ? n - at : FED_MASK_FIELDS;
        fed_private_unpack(fields, width, at, y, part);
        FED_TRY(add_fields(key, width, at, y, part));
        fed_private_pack(y, width, at, fields, part);
    }
    return FED_OK;
}
