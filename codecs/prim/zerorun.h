/* 3LC's zero-run encoding: a run of up to 14 bytes 121, of five zeros each, becomes one byte. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_ZERORUN_H
#define FEDCODEC_PRIM_ZERORUN_H

#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"
#include "fed/status.h"

/*
 * Input bytes are 0 .. 242. A run of k bytes 121, 2 <= k <= 14, becomes the byte 241 + k. A longer
 * run is cut into runs of 14 from its front. So each input has exactly one encoding.
 * FEDCODEC_ZERORUN_ROOM: see fedcodec_zerorun_unpack.
 */
enum { FEDCODEC_ZERORUN_MAX = 14, FEDCODEC_ZERORUN_ROOM = 64 };

/** Return the length of the run that an output byte stands for; 0 if it stands for itself. */
static inline unsigned fedcodec_zerorun_len(uint8_t b) {
    return b >= 243 ? b - 241u : b == 121;
}

/** A message that is being written, or a piece of a message that fedcodec_zerorun_join appends. */
typedef struct fedcodec_zerorun {
    uint8_t *out;     /* where the next byte goes */
    size_t run;       /* number of bytes 121 not written yet */
    uint8_t *written; /* the piece's first byte, NULL before it is written */
    size_t lead;      /* bytes 121 before that byte, which the piece does not write */
} fedcodec_zerorun;

/** Begin a message in dst. The message gets no longer than its input. */
static inline fedcodec_zerorun fedcodec_zerorun_front(uint8_t *dst) {
    return (fedcodec_zerorun){dst, 0, dst, 0};
}

/** Begin a later piece. dst: where the piece would begin if no run before it were shortened. */
static inline fedcodec_zerorun fedcodec_zerorun_piece(uint8_t *dst) {
    return (fedcodec_zerorun){dst, 0, NULL, 0};
}

/** Encode the next bytes of the message or piece, src[len]. */
void fedcodec_zerorun_push(fedcodec_zerorun *z, const uint8_t *src, size_t len);

/** Append a piece to the message front. The result is as if all input had been pushed to front. */
void fedcodec_zerorun_join(fedcodec_zerorun *front, const fedcodec_zerorun *piece);

/** Write the last run of a message. Returns the message's end. */
uint8_t *fedcodec_zerorun_end(fedcodec_zerorun *front);

/** Check that src[len] is the encoding of `unpacked` bytes, of which not all are 121. */
fed_status fedcodec_zerorun_check(const uint8_t *src, size_t len, size_t unpacked) FED_CHECKED;

/** Return how many unpacked bytes src[len] stands for. */
size_t fedcodec_zerorun_sum(const uint8_t *src, size_t len);

/** List the unpacked bytes that are not 121 in found[len], and their positions in at[len]. Returns
 * their number. The function is fast if src has mostly runs of 14. */
size_t fedcodec_zerorun_find(const uint8_t *src, size_t len, uint8_t *found, uint32_t *at);

/** Unpack src[len]. Returns the number of bytes. Up to FEDCODEC_ZERORUN_ROOM more of
 * dst are overwritten. */
size_t fedcodec_zerorun_unpack(const uint8_t *src, size_t len, uint8_t *dst);

#endif
