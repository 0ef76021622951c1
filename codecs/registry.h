/* Inside the library: the codecs by folder name, from codecs.def. */
#ifndef FEDCODEC_REGISTRY_H
#define FEDCODEC_REGISTRY_H

#include "codecs/unit.h"
#include "fedcodec/codec.h"

/* A codec's permanent id: FEDCODEC_ID_sbc. */
enum {
#define FEDCODEC(id, folder) FEDCODEC_ID_##folder = (id),
#include "codecs/codecs.def"
#undef FEDCODEC
};

/* The codecs of this build: all, or a file with some of the lines. identity's must be among them.
 */
#ifndef FEDCODEC_LIST
#define FEDCODEC_LIST "codecs/codecs.def"
#endif

/* What a folder defines: its codec, for the unit that is being compiled. */
#define FEDCODEC_VTABLE(folder) FEDCODEC_UNITED(fedcodec_##folder)
#define FEDCODEC(id, folder)    extern const fedcodec_vtable FEDCODEC_VTABLE(folder);
#include FEDCODEC_LIST
#undef FEDCODEC

/* Codecs there are. */
enum {
#define FEDCODEC(id, folder) FEDCODEC_INDEX_##folder,
#include FEDCODEC_LIST
#undef FEDCODEC
    FEDCODEC_COUNT
};
_Static_assert(FEDCODEC_INDEX_identity < FEDCODEC_COUNT, "statistics travel as they are");

/** A unit of vector instructions, and the codecs compiled for it, in the order of the list. */
typedef struct fedcodec_unit {
    const char *name; /* "avx512", "avx2"; "plain" asks for nothing that not all machines have */
    const fedcodec_vtable *codecs[FEDCODEC_COUNT];
} fedcodec_unit;

/** That of the unit being compiled. */
extern const fedcodec_unit fedcodec_this_unit;

/** The k-th unit that this machine can run, the fastest first; NULL past the last. */
const fedcodec_unit *fedcodec_unit_at(size_t k);

/** Most values of a tensor: on a 32-bit machine fewer, so that no size computed from them, such as
 * of work memory, passes a size_t. */
#define FEDCODEC_VALUES_MAX ((size_t)(SIZE_MAX / 32 < UINT32_MAX ? SIZE_MAX / 32 : UINT32_MAX))

/** Are all parameters within their ranges? */
bool fedcodec_params_valid(const fedcodec *codec);

/** fedcodec_encode's two halves: are the values finite, with nothing changed yet, which an
 * unguarded residual need not know; and what comes then, with what the first half found. */
fed_status fedcodec_scan(const fedcodec *codec, const float *residual, const float *x, size_t n,
                         float *max) FED_CHECKED;
fed_status fedcodec_encode_scanned(const fedcodec *codec, float *residual, const float *x, size_t n,
                                   float max, void *work, uint8_t *dst, size_t cap,
                                   size_t *len) FED_CHECKED;

#endif
