/* Zero-run encoding: a run of up to 14 bytes 121 becomes one byte; other bytes stay as they are. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/zerorun.h"

#include <stdbool.h>
#include <string.h>

#include "codecs/prim/lanes.h"

#if FEDCODEC_AVX2
#include <immintrin.h>
#elif FEDCODEC_NEON
#include <arm_neon.h>
#endif

enum { ZERO = 121, GROUP = 64, BLOCK = 4096 };

/* Return the byte for a run of 1 to 14 bytes 121. For a run of 0 the result is not used. */
static uint8_t run_byte(size_t run) {
    return (uint8_t)(run == 1 ? ZERO : 241 + run);
}

static uint8_t *put_run(uint8_t *out, size_t run) {
    for (; run >= FEDCODEC_ZERORUN_MAX; run -= FEDCODEC_ZERORUN_MAX) {
        *out++ = run_byte(FEDCODEC_ZERORUN_MAX);
    }
    *out = run_byte(run);
    return out + (run > 0);
}

/* Write the run before a byte other than 121. Before the first such byte of a piece, do not write
 * the run, but make it the piece's lead. */
static void flush(fedcodec_zerorun *z) {
    if (z->written == NULL) {
        z->lead = z->run;
        z->out += z->run;
        z->written = z->out;
    } else {
        z->out = put_run(z->out, z->run);
    }
    z->run = 0;
}

/* Return a bit for each of 64 bytes, the first one lowest: 1 if it differs from the byte given. */
#if FEDCODEC_AVX512
static uint64_t others_of(const uint8_t *src, uint8_t byte) {
    return _mm512_cmpneq_epi8_mask(_mm512_loadu_si512(src), _mm512_set1_epi8((char)byte));
}
#elif FEDCODEC_AVX2
static uint64_t others_of(const uint8_t *src, uint8_t byte) {
    const __m256i zero = _mm256_set1_epi8((char)byte);
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)src);
    __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(src + 32));
    uint32_t low_zeros = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, zero));
    uint32_t high_zeros = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, zero));
    return ~((uint64_t)high_zeros << 32 | low_zeros);
}
#elif FEDCODEC_NEON
static uint64_t others_of(const uint8_t *src, uint8_t byte) {
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(UINT64_C(0x8040201008040201)));
    const uint8x16_t zero = vdupq_n_u8(byte);
    uint8x16_t part[4];
    for (size_t j = 0; j < 4; j++) {
        part[j] = vbicq_u8(bit, vceqq_u8(vld1q_u8(src + 16 * j), zero));
    }
    uint8x16_t sum = vpaddq_u8(vpaddq_u8(part[0], part[1]), vpaddq_u8(part[2], part[3]));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sum, sum)), 0);
}
#else
static uint64_t others_of(const uint8_t *src, uint8_t byte) {
    const uint8_t zeros[8] = {byte, byte, byte, byte, byte, byte, byte, byte};
    uint64_t others = 0;
    for (size_t i = 0; i < GROUP; i += 8) {
        for (size_t j = i; memcmp(src + i, zeros, 8) != 0 && j < i + 8; j++) {
            others |= (uint64_t)(src[j] != byte) << j;
        }
    }
    return others;
}
#endif

/* Write the bytes that have a bit in the mask others one by one, with the runs between them. */
static void put_others(fedcodec_zerorun *z, const uint8_t *src, uint64_t others, size_t len) {
    size_t next = 0; /* bytes before this index are written, or counted in z->run */
    for (; others != 0; others &= others - 1) {
        size_t at = (size_t)__builtin_ctzll(others);
        z->run += at - next;
        flush(z);
        *z->out++ = src[at];
        next = at + 1;
    }
    z->run += len - next;
}

/* BEHIND: how many bytes put_group may write past the end of its output. */
#if FEDCODEC_AVX512
enum { BEHIND = 0 };

/* Do what put_others does, with few branches. Groups with a run of more than 14 are left to
 * put_others. */
static void put_group(fedcodec_zerorun *z, const uint8_t *src, uint64_t others) {
    const __m512i iota = fedcodec_lanes_numbers();
    uint64_t inner = ~others & ~_blsmsk_u64(others) & (UINT64_MAX >> _lzcnt_u64(others));
    uint64_t ends = inner & ~(inner >> 1);
    __m512i start = _mm512_maskz_compress_epi8(inner & ~(inner << 1), iota);
    __m512i more = _mm512_sub_epi8(_mm512_maskz_compress_epi8(ends, iota), start);
    if (_mm512_cmpge_epu8_mask(more, _mm512_set1_epi8(FEDCODEC_ZERORUN_MAX)) != 0) {
        put_others(z, src, others, GROUP);
        return;
    }
    z->run += _tzcnt_u64(others);
    flush(z);
    z->run = _lzcnt_u64(others);
    /* more has each run's length minus one. A run's byte replaces the last byte of the run. */
    __m512i code = _mm512_add_epi8(more, _mm512_set1_epi8((char)242));
    code = _mm512_mask_mov_epi8(code, _mm512_testn_epi8_mask(more, more), _mm512_set1_epi8(ZERO));
    __m512i v = _mm512_mask_expand_epi8(_mm512_loadu_si512(src), ends, code);
    uint64_t kept = others | ends;
    unsigned made = (unsigned)_mm_popcnt_u64(kept);
    v = _mm512_maskz_compress_epi8(kept, v);
    _mm512_mask_storeu_epi8(z->out, _bzhi_u64(UINT64_MAX, made), v);
    z->out += made;
}
#elif FEDCODEC_AVX2
/* MANY: if at least this many of 64 bytes are not 121, coding eight bytes at once is faster than
 * coding each. */
enum { EIGHT = 8, BEHIND = EIGHT, MANY = 8 };

/* Replace each 121 by the code of the run up to it within its group of eight bytes. */
static __m256i code_runs(__m256i v) {
    const __m256i zero = _mm256_cmpeq_epi8(v, _mm256_set1_epi8(ZERO));
    /* Count the run of bytes 121 up to each byte: among its last two, then four, then eight. */
    __m256i run = _mm256_and_si256(zero, _mm256_set1_epi8(1));
    run = _mm256_add_epi8(run, _mm256_and_si256(_mm256_slli_epi64(run, 8), zero));
    __m256i whole = _mm256_cmpeq_epi8(run, _mm256_set1_epi8(2));
    run = _mm256_add_epi8(run, _mm256_and_si256(_mm256_slli_epi64(run, 16), whole));
    whole = _mm256_cmpeq_epi8(run, _mm256_set1_epi8(4));
    run = _mm256_add_epi8(run, _mm256_and_si256(_mm256_slli_epi64(run, 32), whole));
    __m256i longer = _mm256_cmpgt_epi8(run, _mm256_set1_epi8(1));
    return _mm256_blendv_epi8(v, _mm256_add_epi8(run, _mm256_set1_epi8((char)241)), longer);
}

/* Pack eight bytes of code_runs. A run at either end may go on in the neighbouring eight bytes.
 * Always stores eight bytes, of which only the kept ones are valid. */
static inline void put_eight(fedcodec_zerorun *z, const uint8_t *coded, unsigned others) {
    unsigned first = others & (0u - others), lead = (unsigned)__builtin_ctz(others);
    unsigned ends = ~others & others >> 1 & ~(first - 1);
    unsigned kept = others | ends;
    z->run += lead;
    flush(z);
    z->run = (unsigned)__builtin_clz(others) - (32 - EIGHT);
    __m128i order = _mm_loadl_epi64((const void *)&fedcodec_lanes_packs[kept]);
    __m128i v = _mm_shuffle_epi8(_mm_loadl_epi64((const void *)coded), order);
    _mm_storel_epi64((__m128i *)(void *)z->out, v);
    z->out += __builtin_popcount(kept);
}

static void put_group(fedcodec_zerorun *z, const uint8_t *src, uint64_t others) {
    uint8_t coded[GROUP];
    if (__builtin_popcountll(others) < MANY) {
        put_others(z, src, others, GROUP);
        return;
    }
    for (size_t i = 0; i < GROUP; i += 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(src + i));
        _mm256_storeu_si256((__m256i *)(void *)(coded + i), code_runs(v));
    }
    for (size_t i = 0; i < GROUP; i += EIGHT, others >>= EIGHT) {
        if ((others & 0xff) == 0) {
            z->run += EIGHT;
        } else {
            put_eight(z, coded + i, others & 0xff);
        }
    }
}
#else
enum { BEHIND = 0 };

static void put_group(fedcodec_zerorun *z, const uint8_t *src, uint64_t others) {
    put_others(z, src, others, GROUP);
}
#endif

void fedcodec_zerorun_push(fedcodec_zerorun *z, const uint8_t *src, size_t len) {
    for (; len >= GROUP; len -= GROUP, src += GROUP) {
        uint64_t others = others_of(src, ZERO);
        if (others == 0) {
            z->run += GROUP;
        } else if (len >= GROUP + BEHIND) {
            put_group(z, src, others);
        } else {
            put_others(z, src, others, GROUP);
        }
    }
    uint64_t others = 0;
    for (size_t i = 0; i < len; i++) {
        others |= (uint64_t)(src[i] != ZERO) << i;
    }
    put_others(z, src, others, len);
}

void fedcodec_zerorun_join(fedcodec_zerorun *front, const fedcodec_zerorun *piece) {
    if (piece->written == NULL) {
        front->run += piece->run;
        return;
    }
    front->run += piece->lead;
    size_t len = (size_t)(piece->out - piece->written);
    memmove(fedcodec_zerorun_end(front), piece->written, len);
    front->out += len;
    front->run = piece->run;
}

uint8_t *fedcodec_zerorun_end(fedcodec_zerorun *front) {
    if (front->run > 0) { /* put_run writes a byte even for a run of 0 */
        flush(front);
    }
    return front->out;
}

/* Return how many bytes a message's byte stands for, minus one. */
static unsigned more_of(uint8_t byte) {
    return (byte > 242 ? byte : 242u) - 242u;
}

size_t fedcodec_zerorun_sum(const uint8_t *src, size_t len) {
    size_t sum = len, i = 0;
#if FEDCODEC_AVX2
    const __m256i last = _mm256_set1_epi8((char)242), none = _mm256_setzero_si256();
    __m256i sums = none;
    for (; i + 32 <= len; i += 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(src + i));
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(_mm256_subs_epu8(v, last), none));
    }
    __m128i both = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    sum += (size_t)_mm_cvtsi128_si64(both) + (size_t)_mm_extract_epi64(both, 1);
#endif
    while (i < len) { /* blocks so small that 16 bits hold the sum */
        size_t end = len - i < BLOCK ? len : i + BLOCK;
        uint16_t more = 0;
        for (; i < end; i++) {
            more = (uint16_t)(more + more_of(src[i]));
        }
        sum += more;
    }
    return sum;
}

/* Do the work of fedcodec_zerorun_find for 64 bytes. Bytes without a bit in the mask others are
 * runs of 14, so the loop handles only the other bytes. */
static size_t find_others(const uint8_t *src, uint64_t others, size_t *first, uint8_t *found,
                          uint32_t *at) {
    size_t count = 0, less = 0;
    for (; others != 0; others &= others - 1) {
        size_t i = (size_t)__builtin_ctzll(others);
        const uint8_t byte = src[i];
        found[count] = byte;
        at[count] = (uint32_t)(*first + FEDCODEC_ZERORUN_MAX * i - less);
        count += (unsigned)(byte <= 242) & (unsigned)(byte != ZERO);
        less += FEDCODEC_ZERORUN_MAX - 1 - more_of(byte);
    }
    *first += FEDCODEC_ZERORUN_MAX * GROUP - less;
    return count;
}

size_t fedcodec_zerorun_find(const uint8_t *src, size_t len, uint8_t *found, uint32_t *at) {
    size_t count = 0, first = 0, i = 0;
    for (; i + GROUP <= len; i += GROUP) {
        uint64_t others = others_of(src + i, run_byte(FEDCODEC_ZERORUN_MAX));
        count += find_others(src + i, others, &first, found + count, at + count);
    }
    uint8_t rest[GROUP];
    memset(rest, run_byte(FEDCODEC_ZERORUN_MAX), sizeof rest);
    memcpy(rest, src + i, len - i);
    uint64_t others = others_of(rest, run_byte(FEDCODEC_ZERORUN_MAX));
    return count + find_others(rest, others, &first, found + count, at + count);
}

/* Return where the run of each of eight bytes ends, the first in the lowest byte. No sum exceeds a
 * byte, as sizes are at most 14. */
static uint64_t ends_of(const uint8_t size[8]) {
    uint64_t sizes = (uint64_t)size[0] | (uint64_t)size[1] << 8 | (uint64_t)size[2] << 16 |
                     (uint64_t)size[3] << 24 | (uint64_t)size[4] << 32 | (uint64_t)size[5] << 40 |
                     (uint64_t)size[6] << 48 | (uint64_t)size[7] << 56;
    return sizes * UINT64_C(0x0101010101010101);
}

/* Write each of 64 bytes to its place among bytes 121. No branch depends on the data. */
static uint8_t *put_each(const uint8_t *src, uint8_t *out) {
    uint8_t value[GROUP], size[GROUP];
    for (size_t i = 0; i < GROUP; i++) {
        value[i] = src[i] > 242 ? ZERO : src[i];
        size[i] = (uint8_t)(1 + more_of(src[i]));
    }
    for (size_t i = 0; i < GROUP; i += 8) {
        const uint64_t ends = ends_of(size + i);
        uint64_t begins = ends << 8;
        for (size_t j = i; j < i + 8; j++, begins >>= 8) {
            out[begins & 0xff] = value[j];
        }
        out += ends >> 56;
    }
    return out;
}

static uint8_t *unpack_each(const uint8_t *src, size_t len, uint8_t *out) {
    uint8_t rest[GROUP] = {0}, *end = out + fedcodec_zerorun_sum(src, len);
    memset(out, ZERO, (size_t)(end - out));
    for (; len >= GROUP; src += GROUP, len -= GROUP) {
        out = put_each(src, out);
    }
    if (len > 0) { /* put_each may write after the end, which is allowed */
        memcpy(rest, src, len);
        put_each(rest, out);
    }
    return end;
}

#if FEDCODEC_AVX512
/* Return a lane for each of 16 bytes. The lane has one bit, at the position where the byte's run
 * begins. */
static __m512i bits_of(const uint8_t *begins) {
    const __m128i at = _mm_load_si128((const __m128i *)(const void *)begins);
    return _mm512_sllv_epi32(_mm512_set1_epi32(1), _mm512_cvtepu8_epi32(at));
}

/* Combine pairs of lanes by OR in a and in b, and interleave the results. */
static __m512i fold_lanes(__m512i a, __m512i b) {
    return _mm512_or_si512(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

/* Unpack 64 bytes. Eight of them usually stand for at most 32 bytes, so that 16 of them fill at
 * most one vector of 64. A byte's position is the sum of the sizes before it among eight bytes. */
static uint8_t *unpack_group(const uint8_t *src, uint8_t *out) {
    const __m512i last = _mm512_set1_epi8((char)242), zeros = _mm512_set1_epi8(ZERO);
    const __m512i v = _mm512_loadu_si512(src);
    const __m512i size = _mm512_add_epi8(_mm512_subs_epu8(v, last), _mm512_set1_epi8(1));
    __m512i end = _mm512_add_epi8(size, _mm512_slli_epi64(size, 8));
    end = _mm512_add_epi8(end, _mm512_slli_epi64(end, 16));
    end = _mm512_add_epi8(end, _mm512_slli_epi64(end, 32));
    if (_mm512_cmpgt_epu8_mask(end, _mm512_set1_epi8(32)) != 0) {
        return unpack_each(src, GROUP, out);
    }
    _Alignas(64) uint8_t value[GROUP], begins[GROUP], ends[GROUP];
    _mm512_store_si512(value, _mm512_mask_mov_epi8(v, _mm512_cmpgt_epu8_mask(v, last), zeros));
    _mm512_store_si512(begins, _mm512_sub_epi8(end, size));
    _mm512_store_si512(ends, end);
    const __m512i low = fold_lanes(bits_of(begins), bits_of(begins + 16));
    const __m512i high = fold_lanes(bits_of(begins + 32), bits_of(begins + 48));
    __m512i all =
        _mm512_or_si512(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
    all = _mm512_or_si512(all, _mm512_shuffle_i64x2(all, all, 0xb1));
    /* bits[k] has the positions of the bytes 16 k to 16 k + 7, bits[8 + k] of the eight after. */
    _Alignas(64) uint32_t bits[16];
    _mm512_store_si512(bits, all);
    for (size_t k = 0; k < GROUP / 16; k++) {
        const uint8_t half = ends[16 * k + 7], more = ends[16 * k + 15];
        const __m128i part = _mm_load_si128((const __m128i *)(const void *)(value + 16 * k));
        _mm512_storeu_si512(out,
                            _mm512_mask_expand_epi8(zeros, bits[k] | (uint64_t)bits[8 + k] << half,
                                                    _mm512_castsi128_si512(part)));
        out += half + more;
    }
    return out;
}
#endif

size_t fedcodec_zerorun_unpack(const uint8_t *src, size_t len, uint8_t *dst) {
    uint8_t *out = dst;
#if FEDCODEC_AVX512
    for (; len >= GROUP; src += GROUP, len -= GROUP) {
        out = unpack_group(src, out);
    }
#endif
    return (size_t)((len > 0 ? unpack_each(src, len, out) : out) - dst);
}

/* Are runs cut as the encoder cuts them? A run's byte may follow another run's byte only if the
 * earlier one stands for 14 bytes. *others becomes true if some byte is no run. src[-1] must be
 * readable. */
static bool runs_are_cut_right(const uint8_t *src, size_t len, bool *others) {
    uint8_t bad = 0, other = 0;
    for (size_t i = 0; i < len; i++) {
        uint8_t byte = src[i], before = src[(ptrdiff_t)i - 1];
        uint8_t run = (uint8_t)((byte == ZERO) | (byte > 242));
        uint8_t after_short = (uint8_t)((before == ZERO) | ((before > 242) & (before < 255)));
        bad |= run & after_short;
        other |= run ^ 1;
    }
    *others |= other != 0;
    return bad == 0;
}

fed_status fedcodec_zerorun_check(const uint8_t *src, size_t len, size_t unpacked) {
    FED_REQUIRE(len > 0, FED_EFORMAT);
    bool others = fedcodec_zerorun_len(src[0]) == 0;
    FED_REQUIRE(runs_are_cut_right(src + 1, len - 1, &others) && others, FED_EFORMAT);
    FED_REQUIRE(fedcodec_zerorun_sum(src, len) == unpacked, FED_EFORMAT);
    return FED_OK;
}
