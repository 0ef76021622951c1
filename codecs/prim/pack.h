/* Pack codes of 1 to 8 bits, each in a byte, into a bit stream, and unpack them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_PACK_H
#define FEDCODEC_PRIM_PACK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Eight codes of b bits fill b bytes. FEDCODEC_PACK_MORE: bytes past the end that the functions
 * below may read or write. */
enum { FEDCODEC_PACK_GROUP = 8, FEDCODEC_PACK_MORE = 8 };

/** Return how many bytes n codes take. */
static inline size_t fedcodec_packed_len(size_t n, unsigned bits) {
    return (size_t)(((uint64_t)n * bits + 7) / 8);
}

static inline uint64_t fedcodec_big_u64(uint64_t v) {
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? v : __builtin_bswap64(v);
}

/**
 * Pack n codes, the first one into the most significant bits of the first byte; zeros fill the last
 * byte. Eight codes are joined in three steps: to pairs, to fours, to one number of 8 * bits bits.
 *
 * code  uint8[n + FEDCODEC_PACK_MORE], each below 2^bits
 * dst   room for the packed bytes and FEDCODEC_PACK_MORE
 */
static inline void fedcodec_pack(uint8_t *code, size_t n, unsigned bits, uint8_t *dst) {
    memset(code + n, 0, FEDCODEC_PACK_GROUP);
    for (size_t i = 0; i < n; i += FEDCODEC_PACK_GROUP, dst += bits) {
        uint64_t v;
        memcpy(&v, code + i, sizeof v);
        v = fedcodec_big_u64(v);
        v = (v & UINT64_C(0x00ff00ff00ff00ff)) | (v & UINT64_C(0xff00ff00ff00ff00)) >> (8 - bits);
        v = (v & UINT64_C(0x0000ffff0000ffff)) |
            (v & UINT64_C(0xffff0000ffff0000)) >> (16 - 2 * bits);
        v = (v & UINT32_MAX) | v >> 32 << 4 * bits;
        v = fedcodec_big_u64(v << (64 - 8 * bits));
        memcpy(dst, &v, sizeof v);
    }
}

/** Unpack n codes. src and code need as much room as for fedcodec_pack. */
static inline void fedcodec_unpack(const uint8_t *src, size_t n, unsigned bits, uint8_t *code) {
    const uint64_t fours = UINT32_MAX >> (32 - 4 * bits);
    const uint64_t pairs = UINT64_C(0x0000000100000001) * ((UINT64_C(1) << 2 * bits) - 1);
    const uint64_t single = UINT64_C(0x0001000100010001) * ((UINT64_C(1) << bits) - 1);
    for (size_t i = 0; i < n; i += FEDCODEC_PACK_GROUP, src += bits) {
        uint64_t v;
        memcpy(&v, src, sizeof v);
        v = fedcodec_big_u64(v) >> (64 - 8 * bits);
        v = (v & fours) | v >> 4 * bits << 32;
        v = (v & pairs) | (v & pairs << 2 * bits) << (16 - 2 * bits);
        v = (v & single) | (v & single << bits) << (8 - bits);
        v = fedcodec_big_u64(v);
        memcpy(code + i, &v, sizeof v);
    }
}

#endif
