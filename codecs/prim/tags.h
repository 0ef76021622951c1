/* The tag plane of inceptionn: two bits a value, which say how many bytes the value takes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_TAGS_H
#define FEDCODEC_PRIM_TAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** Tags in a byte; the first tag is in the lowest bits. */
enum { FEDCODEC_TAGS = 4 };

static inline size_t fedcodec_tags_len(size_t n) {
    return n / FEDCODEC_TAGS + (n % FEDCODEC_TAGS > 0);
}

/* For a byte of tags: the bytes of value k (0, 1, 2 or 4), and those of the first k values. */
#define FEDCODEC_TAG_BYTES(byte, k) (1 << ((byte) >> 2 * (k)&3) >> 1)
#define FEDCODEC_TAGS_BYTES_0(byte) 0
#define FEDCODEC_TAGS_BYTES_1(byte) FEDCODEC_TAG_BYTES(byte, 0)
#define FEDCODEC_TAGS_BYTES_2(byte) (FEDCODEC_TAGS_BYTES_1(byte) + FEDCODEC_TAG_BYTES(byte, 1))
#define FEDCODEC_TAGS_BYTES_3(byte) (FEDCODEC_TAGS_BYTES_2(byte) + FEDCODEC_TAG_BYTES(byte, 2))
#define FEDCODEC_TAGS_BYTES_4(byte) (FEDCODEC_TAGS_BYTES_3(byte) + FEDCODEC_TAG_BYTES(byte, 3))

/* Expand to the rows of a table for the bytes 0 to 255. */
#define FEDCODEC_TAGS_ROWS_4(row, b) row(b), row((b) + 1), row((b) + 2), row((b) + 3)
#define FEDCODEC_TAGS_ROWS_16(row, b)                                                              \
    FEDCODEC_TAGS_ROWS_4(row, b), FEDCODEC_TAGS_ROWS_4(row, (b) + 4),                              \
        FEDCODEC_TAGS_ROWS_4(row, (b) + 8), FEDCODEC_TAGS_ROWS_4(row, (b) + 12)
#define FEDCODEC_TAGS_ROWS_64(row, b)                                                              \
    FEDCODEC_TAGS_ROWS_16(row, b), FEDCODEC_TAGS_ROWS_16(row, (b) + 16),                           \
        FEDCODEC_TAGS_ROWS_16(row, (b) + 32), FEDCODEC_TAGS_ROWS_16(row, (b) + 48)
#define FEDCODEC_TAGS_ROWS(row)                                                                    \
    FEDCODEC_TAGS_ROWS_64(row, 0), FEDCODEC_TAGS_ROWS_64(row, 64),                                 \
        FEDCODEC_TAGS_ROWS_64(row, 128), FEDCODEC_TAGS_ROWS_64(row, 192)

/** For each byte of tags: the bytes of its four values together. */
static const uint8_t fedcodec_tags_bytes[256] = {FEDCODEC_TAGS_ROWS(FEDCODEC_TAGS_BYTES_4)};

/** A network card's burst: its values, the bytes of their tags, the most bytes of a burst. */
enum {
    FEDCODEC_BURST = 8,
    FEDCODEC_BURST_TAGS = FEDCODEC_BURST / FEDCODEC_TAGS,
    FEDCODEC_BURST_MOST = FEDCODEC_BURST_TAGS + 4 * FEDCODEC_BURST
};

static inline size_t fedcodec_bursts(size_t n) {
    return n / FEDCODEC_BURST + (n % FEDCODEC_BURST > 0);
}

/** Return how many bytes a burst takes, with its tags. */
static inline size_t fedcodec_burst_len(const uint8_t *burst) {
    return FEDCODEC_BURST_TAGS + (size_t)fedcodec_tags_bytes[burst[0]] +
           fedcodec_tags_bytes[burst[1]];
}

/** Are the tags after the n-th, which only fill the last byte, all 0? */
static inline bool fedcodec_tags_padded(const uint8_t *tags, size_t n) {
    return n % FEDCODEC_TAGS == 0 || tags[n / FEDCODEC_TAGS] >> 2 * (n % FEDCODEC_TAGS) == 0;
}

/** Reads a message's tags and payload. FEDCODEC_TAGS_AHEAD: see fedcodec_tags_ahead. */
enum { FEDCODEC_TAGS_AHEAD = 320 };
typedef struct fedcodec_tags_reader {
    const uint8_t *tags;
    const uint8_t *at, *end; /* the payload that is left */
    bool at_the_end;         /* at and end point into rest */
    uint8_t rest[2 * FEDCODEC_TAGS_AHEAD];
} fedcodec_tags_reader;

static inline void fedcodec_tags_start(fedcodec_tags_reader *r, const uint8_t *src, size_t len,
                                       size_t n) {
    r->tags = src;
    r->at = src + fedcodec_tags_len(n);
    r->end = src + len;
    r->at_the_end = false;
}

/** Make FEDCODEC_TAGS_AHEAD bytes readable from r->at on. Near the end of the payload, r->at moves
 * to a copy of its last bytes, which zeros follow. Call this only while at <= end. */
static inline void fedcodec_tags_ahead(fedcodec_tags_reader *r) {
    size_t left = (size_t)(r->end - r->at);
    if (left < FEDCODEC_TAGS_AHEAD && !r->at_the_end) {
        memcpy(r->rest, r->at, left);
        memset(r->rest + left, 0, sizeof r->rest - left);
        r->at = r->rest;
        r->end = r->rest + left;
        r->at_the_end = true;
    }
}

#endif
