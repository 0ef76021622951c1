/* Internal to the library: second stages, which make a codec's message shorter without loss. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_STAGE_H
#define FEDCODEC_STAGE_H

#include <stddef.h>
#include <stdint.h>

#include "fedcodec/codec.h"

/* Each stage's permanent id, such as FEDCODEC_STAGE_ID_runs. */
enum {
    FEDCODEC_STAGE_NONE = 0,
#define FEDCODEC_STAGE(id, folder) FEDCODEC_STAGE_ID_##folder = (id),
#include "codecs/stages.def"
#undef FEDCODEC_STAGE
};

typedef struct fedcodec_stage {
    uint8_t id; /* permanent id, from stages.def */
    const char *name;

    /** Pack src[len], len > 0, into dst. Returns the length; 0: above cap, or out of memory. */
    size_t (*pack)(const uint8_t *src, size_t len, uint8_t *dst, size_t cap);

    /** Unpack src[len] into dst[plain_len]. Reads nothing past len, writes nothing past plain_len.
     * FED_EFORMAT: src is not the packed form of exactly plain_len bytes. FED_ENOMEM: out of
     * memory. An error leaves dst arbitrary. */
    fed_status (*unpack)(const uint8_t *src, size_t len, uint8_t *dst, size_t plain_len);
} fedcodec_stage;

/** Return the k-th stage that this build has, or NULL past the last. */
const fedcodec_stage *fedcodec_stage_at(size_t k);

/** Return the stage with this id, or NULL if this build has none. */
const fedcodec_stage *fedcodec_stage_by_id(uint8_t id);

#endif
