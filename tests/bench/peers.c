/* The calls of each lossless compressor. */
#include "peers.h"

#ifdef BENCH_HAS_ZSTD
#include <zstd.h>

#define ZSTD_MISSING ""

static size_t zstd_pack(const uint8_t *src, size_t len, uint8_t *dst, size_t cap) {
    size_t packed = ZSTD_compress(dst, cap, src, len, 1);
    return ZSTD_isError(packed) ? 0 : packed;
}

static bool zstd_unpack(const uint8_t *src, size_t packed, uint8_t *dst, size_t len) {
    return ZSTD_decompress(dst, len, src, packed) == len;
}
#else
#define ZSTD_MISSING " libzstd-dev"
#endif

#ifdef BENCH_HAS_LZ4
#include <lz4.h>

#define LZ4_MISSING ""

static size_t lz4_bound(size_t len) {
    return (size_t)LZ4_COMPRESSBOUND(len);
}

static size_t lz4_pack(const uint8_t *src, size_t len, uint8_t *dst, size_t cap) {
    return (size_t)LZ4_compress_default((const char *)src, (char *)dst, (int)len, (int)cap);
}

static bool lz4_unpack(const uint8_t *src, size_t packed, uint8_t *dst, size_t len) {
    return LZ4_decompress_safe((const char *)src, (char *)dst, (int)packed, (int)len) == (int)len;
}
#else
#define LZ4_MISSING " liblz4-dev"
#endif

#ifdef BENCH_HAS_SNAPPY
#include <snappy-c.h>

#define SNAPPY_MISSING ""

static size_t snappy_pack(const uint8_t *src, size_t len, uint8_t *dst, size_t cap) {
    return snappy_compress((const char *)src, len, (char *)dst, &cap) == SNAPPY_OK ? cap : 0;
}

static bool snappy_unpack(const uint8_t *src, size_t packed, uint8_t *dst, size_t len) {
    return snappy_uncompress((const char *)src, packed, (char *)dst, &len) == SNAPPY_OK;
}
#else
#define SNAPPY_MISSING " libsnappy-dev"
#endif

static const peer peers[] = {
#ifdef BENCH_HAS_ZSTD
    {"zstd -1", ZSTD_compressBound, zstd_pack, zstd_unpack},
#endif
#ifdef BENCH_HAS_LZ4
    {"lz4", lz4_bound, lz4_pack, lz4_unpack},
#endif
#ifdef BENCH_HAS_SNAPPY
    {"snappy", snappy_max_compressed_length, snappy_pack, snappy_unpack},
#endif
    {.name = NULL},
};

const peer *peer_at(size_t k) {
    return k + 1 < sizeof peers / sizeof peers[0] ? &peers[k] : NULL;
}

const char *const peers_missing = ZSTD_MISSING LZ4_MISSING SNAPPY_MISSING;
