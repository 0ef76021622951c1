/* Write and read the positions of the values that a sparse codec sends, in one of several
 * codes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_POSITIONS_H
#define FEDCODEC_PRIM_POSITIONS_H

#include "codecs/prim/golomb.h"
#include "codecs/prim/range.h"
#include "codecs/prim/rans.h"
#include "codecs/prim/select.h"
#include "codecs/unit.h"
#include "fedcodec/codec_vtable.h"

/** The values of a codec's parameter "pos". rice never takes more bytes than golomb. rans, range
 * and auto never take more than rice: unless they find a shorter code, they write that of rice. */
typedef enum fedcodec_pos {
    FEDCODEC_POS_GOLOMB, /* Golomb's code with the parameter b of the SBC paper */
    FEDCODEC_POS_RICE,   /* Golomb's code with the best b */
    FEDCODEC_POS_RANS,
    FEDCODEC_POS_RANGE,
    FEDCODEC_POS_AUTO, /* the shortest of all codes */
    FEDCODEC_POS_COUNT
} fedcodec_pos;

extern const char *const fedcodec_pos_names[FEDCODEC_POS_COUNT + 1];

#define FEDCODEC_POS_PARAM                                                                         \
    {                                                                                              \
        .key = "pos", .preset = FEDCODEC_POS_GOLOMB, .low = 0, .high = FEDCODEC_POS_AUTO,          \
        .help = "how positions are coded", .names = fedcodec_pos_names                             \
    }

/** Return the most bytes that k positions below n take in any code. */
static inline size_t fedcodec_positions_bound(double p, size_t n, size_t k) {
    return fedcodec_golomb_bound(n, k, fedcodec_golomb_b(p));
}

/**
 * Write the positions of chosen, at least one; they ascend and are below n. *how becomes a byte
 * that the message must hold before the positions: the code in its three high bits, the code's
 * parameter in the others. FED_ENOSPC: cap is less than fedcodec_positions_bound.
 */
fed_status fedcodec_positions_put(fedcodec_pos pos, double p, fedcodec_chosen chosen, size_t n,
                                  uint8_t *dst, size_t cap, size_t *len, uint8_t *how) FED_CHECKED;

/** A reader of positions in blocks. The code is looked up only once for each block. */
enum { FEDCODEC_POSITIONS_BLOCK = 256 };

typedef struct fedcodec_positions {
    uint64_t left; /* positions not read yet */
    unsigned code;
    union {
        fedcodec_golomb_reader golomb;
        fedcodec_rans_reader rans;
        fedcodec_range_reader range;
    } as;
    uint32_t index[FEDCODEC_POSITIONS_BLOCK];
} fedcodec_positions;

/** Begin to read count positions below n, which fill src[len]. FED_EFORMAT: fedcodec_positions_put
 * could not have written these bytes. */
fed_status fedcodec_positions_start(fedcodec_positions *r, uint8_t how, const uint8_t *src,
                                    size_t len, uint64_t count, size_t n) FED_CHECKED;

/** Read the next block into r->index. Returns its size; 0 at the end or after a malformed
 * position. */
size_t fedcodec_positions_next(fedcodec_positions *r);

/** Call this function after the last block. FED_OK: all positions were well-formed, and no byte is
 * left. */
fed_status fedcodec_positions_end(const fedcodec_positions *r) FED_CHECKED;

#endif
