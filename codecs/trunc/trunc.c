/* trunc: each value without its b least significant bits. Format: docs/codec-formats.md#trunc
 * Paper: INCEPTIONN, section III and figure 14 ("16b-T" and its like) */
#include <math.h>

#include "codecs/prim/bitmap.h"
#include "codecs/prim/narrow.h"
#include "codecs/registry.h"

/* A message: b, then 32 - b bits for each value. */
enum { HEAD = 1, BITS_MAX = 31, BLOCK = 1024 };

static const fedcodec_param trunc_params[] = {
    {.key = "b", .preset = 16, .low = 1, .high = BITS_MAX, .help = "bits dropped", .whole = true},
    {.key = NULL},
};

/* Bits of n values, each without b of its 32. */
static uint64_t packed_bits(size_t n, unsigned b) {
    return (uint64_t)n * (32 - b);
}

static size_t packed_len(size_t n, unsigned b) {
    return (size_t)((packed_bits(n, b) + 7) / 8);
}

static size_t trunc_bound(const double *param, size_t n) {
    return HEAD + packed_len(n, (unsigned)param[0]);
}

/* Any width, through one word. */
static void pack_bits(const float *x, size_t n, unsigned b, uint8_t *dst) {
    uint64_t word = 0; /* its lowest bits are pending; above them are some that were stored */
    unsigned pending = 0;
    for (size_t i = 0; i < n; i++) {
        word = word << (32 - b) | fedcodec_bits(x[i]) >> b;
        pending += 32 - b;
        if (pending >= 32) {
            pending -= 32;
            uint32_t full = (uint32_t)(word >> pending);
            dst[0] = (uint8_t)(full >> 24);
            dst[1] = (uint8_t)(full >> 16);
            dst[2] = (uint8_t)(full >> 8);
            dst[3] = (uint8_t)full;
            dst += 4;
        }
    }
    for (word <<= 32 - pending; pending > 0; pending -= pending < 8 ? pending : 8) {
        *dst++ = (uint8_t)(word >> 24);
        word <<= 8;
    }
}

static void unpack_bits(const uint8_t *src, size_t n, unsigned b, float *x) {
    const uint32_t kept = UINT32_MAX << b;
    size_t len = packed_len(n, b);
    for (size_t i = 0; i < n; i++) {
        uint64_t at = packed_bits(i, b);
        uint64_t word = fedcodec_bitmap_word(src, len, (size_t)(at / 8)) << at % 8;
        x[i] = fedcodec_float((uint32_t)(word >> 32) & kept);
    }
}

/* Two widths of whole bytes are loops that compilers make vectors of. */
static void pack(const float *restrict x, size_t n, unsigned b, uint8_t *restrict dst) {
    if (b == 16) {
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = fedcodec_bits(x[i]);
            fedcodec_store_u16(dst + 2 * i, (uint16_t)(bits >> 24 | (bits >> 8 & 0xff00)));
        }
    } else if (b == 24) {
        for (size_t i = 0; i < n; i++) {
            dst[i] = (uint8_t)(fedcodec_bits(x[i]) >> 24);
        }
    } else {
        pack_bits(x, n, b, dst);
    }
}

static void unpack(const uint8_t *restrict src, size_t n, unsigned b, float *restrict x) {
    if (b == 16) {
        for (size_t i = 0; i < n; i++) {
            x[i] = fedcodec_float((uint32_t)src[2 * i] << 24 | (uint32_t)src[2 * i + 1] << 16);
        }
    } else if (b == 24) {
        for (size_t i = 0; i < n; i++) {
            x[i] = fedcodec_float((uint32_t)src[i] << 24);
        }
    } else {
        unpack_bits(src, n, b, x);
    }
}

static fed_status trunc_encode(const fedcodec_job *job, size_t *len) {
    FED_REQUIRE(isfinite(fedcodec_scan_sum(job->x, NULL, job->n)), FED_ENONFINITE);
    const unsigned b = (unsigned)job->param[0];
    job->dst[0] = (uint8_t)b;
    pack(job->x, job->n, b, job->dst + HEAD);
    *len = HEAD + packed_len(job->n, b);
    return FED_OK;
}

/* Values of a message, a block at a time: a block's bits are whole bytes. */
typedef struct block {
    float value[BLOCK];
    size_t count;
} block;

static void load_block(const uint8_t *src, size_t first, size_t n, block *to) {
    to->count = n - first < BLOCK ? n - first : BLOCK;
    unpack(src + HEAD + first / 8 * (32u - src[0]), to->count, src[0], to->value);
}

static fed_status trunc_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len >= HEAD && src[0] >= 1 && src[0] <= BITS_MAX, FED_EFORMAT);
    FED_REQUIRE(len - HEAD == packed_len(n, src[0]), FED_EFORMAT);
    unsigned padding = (unsigned)(8 * (len - HEAD) - packed_bits(n, src[0]));
    FED_REQUIRE((src[len - 1] & ((1u << padding) - 1)) == 0, FED_EFORMAT);
    uint32_t max = 0;
    block x;
    for (size_t i = 0; i < n; i += BLOCK) {
        load_block(src, i, n, &x);
        uint32_t m = fedcodec_bits(fedcodec_scan_sum(x.value, NULL, x.count));
        max = m > max ? m : max;
    }
    FED_REQUIRE(isfinite(fedcodec_float(max)), FED_EFORMAT);
    *max_abs = fedcodec_float(max);
    return FED_OK;
}

static void trunc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    (void)len;
    unpack(src + HEAD, n, src[0], y);
}

static void trunc_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    (void)len;
    block x;
    for (size_t i = 0; i < n; i += BLOCK) {
        load_block(src, i, n, &x);
        for (size_t k = 0; k < x.count; k++) {
            y[i + k] += w * x.value[k];
        }
    }
}

static void trunc_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    (void)len;
    block x;
    for (size_t i = 0; i < n; i += BLOCK) {
        load_block(src, i, n, &x);
        for (size_t k = 0; k < x.count; k++) {
            acc[i + k] += weight * fedcodec_fixed(x.value[k]);
        }
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(trunc) = {
    .id = FEDCODEC_ID_trunc,
    .name = "trunc",
    .about = "each value without its b least significant bits (INCEPTIONN's baseline)",
    .params = trunc_params,
    .feedback = false,
    .bound = trunc_bound,
    .scan = fedcodec_scan_sum,
    .encode = trunc_encode,
    .check = trunc_check,
    .decode = trunc_decode,
    .axpy = trunc_axpy,
    .fold = trunc_fold,
};
