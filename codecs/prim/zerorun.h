/* Runs of the byte 121 in one byte: the zero-run encoding of 3LC. */
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

/** How many bytes 121 a byte of the output stands for: 0 for any other byte. */
static inline unsigned fedcodec_zerorun_len(uint8_t b) {
    return b >= 243 ? b - 241u : b == 121;
}

/** A message on its way out, or a piece of one, that fedcodec_zerorun_join puts behind another. */
typedef struct fedcodec_zerorun {
    uint8_t *out;     /* where the next byte goes */
    size_t run;       /* bytes 121 not written yet */
    uint8_t *written; /* the piece's first byte; NULL until it has one */
    size_t lead;      /* bytes 121 before it, never written */
} fedcodec_zerorun;

/** The front of a message, which will not be longer than what is pushed. */
static inline fedcodec_zerorun fedcodec_zerorun_front(uint8_t *dst) {
    return (fedcodec_zerorun){dst, 0, dst, 0};
}

/** A later piece: dst is where the message would be if nothing before it became shorter. */
static inline fedcodec_zerorun fedcodec_zerorun_piece(uint8_t *dst) {
    return (fedcodec_zerorun){dst, 0, NULL, 0};
}

/** Encode src[len] next. */
void fedcodec_zerorun_push(fedcodec_zerorun *z, const uint8_t *src, size_t len);

/** Put a piece behind the front: the bytes are those of one that had been pushed everything. */
void fedcodec_zerorun_join(fedcodec_zerorun *front, const fedcodec_zerorun *piece);

/** Write the run that is left; returns where the message ends. */
uint8_t *fedcodec_zerorun_end(fedcodec_zerorun *front);

/** FED_OK when src[len] is what encoding makes of some `unpacked` bytes, of which at least one is
 * not 121. */
fed_status fedcodec_zerorun_check(const uint8_t *src, size_t len, size_t unpacked) FED_CHECKED;

/** How many bytes src[len] stands for. */
size_t fedcodec_zerorun_sum(const uint8_t *src, size_t len);

/** Of those bytes, the ones that are not 121, and where they are: found[len] and at[len] have room.
 * Returns how many. Made for bytes that mostly are the longest runs. */
size_t fedcodec_zerorun_find(const uint8_t *src, size_t len, uint8_t *found, uint32_t *at);

/** Those bytes; returns their number. Behind them dst has FEDCODEC_ZERORUN_ROOM more, which become
 * anything. */
size_t fedcodec_zerorun_unpack(const uint8_t *src, size_t len, uint8_t *dst);

#endif
