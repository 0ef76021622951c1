/* Runs of the byte 121 in one byte: the zero-run encoding of 3LC. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_ZERORUN_H
#define FEDCODEC_PRIM_ZERORUN_H

#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"
#include "fed/status.h"

/*
 * Input bytes are 0 .. 242. A run of k bytes 121, 2 <= k <= 14, becomes the byte 241 + k; a longer
 * one is cut into runs of 14 from its front. So a message has one form only.
 */
enum { FEDCODEC_ZERORUN_MAX = 14, FEDCODEC_ZERORUN_ROOM = 64 };

/** The length of the run that an output byte stands for; 0: it stands for itself. */
static inline unsigned fedcodec_zerorun_len(uint8_t b) {
    return b >= 243 ? b - 241u : b == 121;
}

/** A message that is being written, or a piece of one, which fedcodec_zerorun_join appends. */
typedef struct fedcodec_zerorun {
    uint8_t *out;     /* where the next byte goes */
    size_t run;       /* bytes 121 that are not written yet */
    uint8_t *written; /* the piece's first byte; NULL until it has one */
    size_t lead;      /* bytes 121 before it, never written */
} fedcodec_zerorun;

/** Begin a message. It will not be longer than its input. */
static inline fedcodec_zerorun fedcodec_zerorun_front(uint8_t *dst) {
    return (fedcodec_zerorun){dst, 0, dst, 0};
}

/** Begin a later piece. dst: where it would begin if nothing before it became shorter. */
static inline fedcodec_zerorun fedcodec_zerorun_piece(uint8_t *dst) {
    return (fedcodec_zerorun){dst, 0, NULL, 0};
}

/** Encode src[len] next. */
void fedcodec_zerorun_push(fedcodec_zerorun *z, const uint8_t *src, size_t len);

/** Append a piece to the front. The bytes are the same as if all input had been pushed to one. */
void fedcodec_zerorun_join(fedcodec_zerorun *front, const fedcodec_zerorun *piece);

/** Write the last run. Returns the end of the message. */
uint8_t *fedcodec_zerorun_end(fedcodec_zerorun *front);

/** FED_OK: src[len] is the encoding of `unpacked` bytes, and not all of these are 121. */
fed_status fedcodec_zerorun_check(const uint8_t *src, size_t len, size_t unpacked) FED_CHECKED;

/** The number of bytes that src[len] stands for. */
size_t fedcodec_zerorun_sum(const uint8_t *src, size_t len);

/** List the unpacked bytes that are not 121 in found[len], their positions in at[len]. Returns
 * their number. Fast if most of src is the longest run. */
size_t fedcodec_zerorun_find(const uint8_t *src, size_t len, uint8_t *found, uint32_t *at);

/** Unpack src[len]. Returns the number of bytes. dst needs room for FEDCODEC_ZERORUN_ROOM more,
 * whose content becomes arbitrary. */
size_t fedcodec_zerorun_unpack(const uint8_t *src, size_t len, uint8_t *dst);

#endif
