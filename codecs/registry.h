/* Internal to the library: the codecs by folder name, from codecs.def, for each vector unit. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_REGISTRY_H
#define FEDCODEC_REGISTRY_H

#include "codecs/unit.h"
#include "fedcodec/codec_vtable.h"

/* Each codec's permanent id, such as FEDCODEC_ID_sbc. */
enum {
#define FEDCODEC(id, folder) FEDCODEC_ID_##folder = (id),
#include "codecs/codecs.def"
#undef FEDCODEC
};

/* The list of codecs in this build: all, or a file with some of its lines. identity must be among
 * them. */
#ifndef FEDCODEC_LIST
#define FEDCODEC_LIST "codecs/codecs.def"
#endif

/* The name of a folder's vtable, which ends in the name of the vector unit being compiled. */
#define FEDCODEC_VTABLE(folder) FEDCODEC_UNITED(fedcodec_##folder)
#define FEDCODEC(id, folder)    extern const fedcodec_vtable FEDCODEC_VTABLE(folder);
#include FEDCODEC_LIST
#undef FEDCODEC

enum {
#define FEDCODEC(id, folder) FEDCODEC_INDEX_##folder,
#include FEDCODEC_LIST
#undef FEDCODEC
    FEDCODEC_COUNT
};
_Static_assert(FEDCODEC_INDEX_identity < FEDCODEC_COUNT, "running statistics travel as float32");

/** Functions for a network card's bursts, as fedcodec/bursts.h describes them. */
typedef struct fedcodec_burst_coder {
    size_t (*encode)(int e, const void *x, size_t n, uint8_t *dst, size_t cap, size_t *len);
    fed_status (*decode)(const uint8_t *src, size_t len, void *x, size_t n);
    void (*round)(int e, const float *x, float *y, size_t n);
} fedcodec_burst_coder;

/** A vector unit, and the codecs compiled for it, in the order of the list. */
typedef struct fedcodec_unit {
    const char *name; /* "avx512" or "avx2"; "plain" runs on every machine */
    const fedcodec_vtable *codecs[FEDCODEC_COUNT];
} fedcodec_unit;

/** The table of the vector unit being compiled. */
extern const fedcodec_unit fedcodec_this_unit;

/** Return the k-th vector unit that this machine can run, the fastest first; NULL past the last. */
const fedcodec_unit *fedcodec_unit_at(size_t k);

#endif
