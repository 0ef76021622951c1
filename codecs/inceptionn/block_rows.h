/* inceptionn: tables of byte shuffles for four words in a vector, by a byte of four tags. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_INCEPTIONN_BLOCK_ROWS_H
#define FEDCODEC_INCEPTIONN_BLOCK_ROWS_H

#include "codecs/prim/tags.h"

/* The index of no byte: the shuffles of AVX2 and of NEON write 0 for it. */
enum { NOWHERE = 0x80 };

#define FOUR(byte, b, i)                                                                           \
    (uint8_t)(byte(b, i, 0)), (uint8_t)(byte(b, i, 1)), (uint8_t)(byte(b, i, 2)),                  \
        (uint8_t)(byte(b, i, 3))
#define SIXTEEN(byte, b)                                                                           \
    { FOUR(byte, b, 0), FOUR(byte, b, 1), FOUR(byte, b, 2), FOUR(byte, b, 3) }

/* put_rows: shuffles from words to a payload. OF_WORD: the index in the words of payload byte p,
 * which belongs to word k. */
#define OF_WORD(b, k, p) (4 * (k) + 4 - FEDCODEC_TAG_BYTES(b, k) + (p)-FEDCODEC_TAGS_BYTES_##k(b))
#define PUT(b, i, j)                                                                               \
    (4 * (i) + (j) < FEDCODEC_TAGS_BYTES_1(b)   ? OF_WORD(b, 0, 4 * (i) + (j))                     \
     : 4 * (i) + (j) < FEDCODEC_TAGS_BYTES_2(b) ? OF_WORD(b, 1, 4 * (i) + (j))                     \
     : 4 * (i) + (j) < FEDCODEC_TAGS_BYTES_3(b) ? OF_WORD(b, 2, 4 * (i) + (j))                     \
     : 4 * (i) + (j) < FEDCODEC_TAGS_BYTES_4(b) ? OF_WORD(b, 3, 4 * (i) + (j))                     \
                                                : NOWHERE)
#define PUT_ROW(b) SIXTEEN(PUT, b)
static const uint8_t put_rows[256][16] = {FEDCODEC_TAGS_ROWS(PUT_ROW)};

/* get_rows: shuffles from a payload to words. */
#define GET(b, i, j)                                                                               \
    ((j) < 4 - FEDCODEC_TAG_BYTES(b, i)                                                            \
         ? NOWHERE                                                                                 \
         : FEDCODEC_TAGS_BYTES_##i(b) + (j)-4 + FEDCODEC_TAG_BYTES(b, i))
#define GET_ROW(b) SIXTEEN(GET, b)
static const uint8_t get_rows[256][16] = {FEDCODEC_TAGS_ROWS(GET_ROW)};

#endif
