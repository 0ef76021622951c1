/* Where the values are that a sparse codec sends: positions to bytes in one of several codes. */
#ifndef FEDCODEC_PRIM_POSITIONS_H
#define FEDCODEC_PRIM_POSITIONS_H

#include "codecs/prim/golomb.h"
#include "codecs/prim/range.h"
#include "codecs/prim/rans.h"
#include "codecs/prim/select.h"
#include "codecs/unit.h"
#include "fedcodec/codec_vtable.h"

/** A codec's parameter "pos". The last three never take more bytes than rice, nor rice than
 * golomb: where their own code would, they write that one. */
typedef enum fedcodec_pos {
    FEDCODEC_POS_GOLOMB, /* with the paper's b */
    FEDCODEC_POS_RICE,   /* with the best b */
    FEDCODEC_POS_RANS,
    FEDCODEC_POS_RANGE,
    FEDCODEC_POS_AUTO, /* the shortest of them */
    FEDCODEC_POS_COUNT
} fedcodec_pos;

extern const char *const fedcodec_pos_names[FEDCODEC_POS_COUNT + 1];

#define FEDCODEC_POS_PARAM                                                                         \
    {                                                                                              \
        .key = "pos", .preset = FEDCODEC_POS_GOLOMB, .low = 0, .high = FEDCODEC_POS_AUTO,          \
        .help = "how positions are coded", .names = fedcodec_pos_names                             \
    }

/** Most bytes of k positions below n, in any code. */
static inline size_t fedcodec_positions_bound(double p, size_t n, size_t k) {
    return fedcodec_golomb_bound(n, k, fedcodec_golomb_b(p));
}

/**
 * Write at least one position, ascending, below n. *how says in which code, and belongs into the
 * message before them: the code in its three high bits, the code's parameter in the others.
 * FED_ENOSPC: cap is less than the bound.
 */
fed_status fedcodec_positions_put(fedcodec_pos pos, double p, fedcodec_chosen chosen, size_t n,
                                  uint8_t *dst, size_t cap, size_t *len, uint8_t *how) FED_CHECKED;

/** Positions being read back, a block at a time, so that only a block asks for its code. */
enum { FEDCODEC_POSITIONS_BLOCK = 256 };

typedef struct fedcodec_positions {
    uint64_t left; /* positions to come */
    unsigned code;
    union {
        fedcodec_golomb_reader golomb;
        fedcodec_rans_reader rans;
        fedcodec_range_reader range;
    } as;
    uint32_t index[FEDCODEC_POSITIONS_BLOCK]; /* the block */
} fedcodec_positions;

/** `count` positions below n, src[len] to its end. FED_EFORMAT: not what put could have written. */
fed_status fedcodec_positions_start(fedcodec_positions *r, uint8_t how, const uint8_t *src,
                                    size_t len, uint64_t count, size_t n) FED_CHECKED;

/** Read the next block into r->index. How many there are in it; 0 after the last one, and as soon
 * as one is malformed. */
size_t fedcodec_positions_next(fedcodec_positions *r);

/** FED_OK after the last block, if all were well and no byte is left over. */
fed_status fedcodec_positions_end(const fedcodec_positions *r) FED_CHECKED;

#endif
