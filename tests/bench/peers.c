/* General lossless compressors, for comparison. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "peers.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { PEERS_MAX = 3, ROUNDS = 5 };

typedef struct peer {
    const char *name;
    size_t (*bound)(size_t len);
    /* Returns the length in bytes; 0: failure. */
    size_t (*pack)(const uint8_t *src, size_t len, uint8_t *dst, size_t cap);
    bool (*unpack)(const uint8_t *src, size_t packed, uint8_t *dst, size_t len);
} peer;

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

const char *const peers_missing = ZSTD_MISSING LZ4_MISSING SNAPPY_MISSING;

void peers_print_head(void) {
    printf("\n| %-22s | %10s |", "input", "bytes");
    for (const peer *p = peers; p->name != NULL; p++) {
        printf(" %7s: smaller |   pack | unpack |", p->name);
    }
    printf("\n|---|---|");
    for (const peer *p = peers; p->name != NULL; p++) {
        printf("---|---|---|");
    }
    putchar('\n');
}

typedef struct times {
    bench_times copy, pack[PEERS_MAX], unpack[PEERS_MAX];
    size_t packed[PEERS_MAX];
} times;

static size_t room(size_t len, size_t floats) {
    size_t most = floats > len ? floats : len;
    for (const peer *p = peers; p->name != NULL; p++) {
        most = p->bound(len) > most ? p->bound(len) : most;
    }
    return most;
}

static void measure_all(times *t, const uint8_t *src, size_t len, const float *x, size_t n) {
    const size_t cap = room(len, n * sizeof *x);
    uint8_t *dst = bench_alloc(cap), *back = bench_alloc(len);
    for (size_t round = 0; round < ROUNDS; round++) {
        BENCH_TIME(&t->copy, memcpy(dst, x, n * sizeof *x));
        for (size_t k = 0; peers[k].name != NULL; k++) {
            bool well = false;
            BENCH_TIME(&t->pack[k], t->packed[k] = peers[k].pack(src, len, dst, cap));
            BENCH_TIME(&t->unpack[k], well = peers[k].unpack(dst, t->packed[k], back, len));
            well = well && memcmp(src, back, len) == 0;
            bench_require(well ? FED_OK : FED_EFORMAT, peers[k].name);
        }
    }
    free(dst);
    free(back);
}

void peers_print_row(const char *input, const uint8_t *src, size_t len, const float *x, size_t n) {
    times *t = bench_alloc(sizeof *t);
    measure_all(t, src, len, x, n);
    double copy_s = bench_median_s(&t->copy);
    printf("| %-22s | %10zu |", input, len);
    for (size_t k = 0; peers[k].name != NULL; k++) {
        printf(" %16.3f | %6.2f | %6.2f |", (double)len / (double)t->packed[k],
               copy_s / bench_median_s(&t->pack[k]), copy_s / bench_median_s(&t->unpack[k]));
    }
    putchar('\n');
    fflush(stdout);
    free(t);
}
