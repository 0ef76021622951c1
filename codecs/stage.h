/* Inside the library: second stages, which make a codec's message shorter without loss. */
#ifndef FEDCODEC_STAGE_H
#define FEDCODEC_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fedcodec/codec.h"

/* A stage's permanent id: FEDCODEC_STAGE_ID_runs. */
enum {
    FEDCODEC_STAGE_NONE = 0,
#define FEDCODEC_STAGE(id, folder) FEDCODEC_STAGE_ID_##folder = (id),
#include "codecs/stages.def"
#undef FEDCODEC_STAGE
};

/** What a stage's folder provides. */
typedef struct fedcodec_stage {
    uint8_t id; /* stages.def */
    const char *name;

    /** Pack src[len], len > 0, into dst; returns how many bytes that are, or 0 if they are more
     * than cap (or memory ran out). */
    size_t (*pack)(const uint8_t *src, size_t len, uint8_t *dst, size_t cap);

    /** FED_OK when src[len] is the packed form of just plain_len bytes, which are in dst then; else
     * FED_EFORMAT. Reads and writes nothing past the two; on an error dst is arbitrary. FED_ENOMEM.
     */
    fed_status (*unpack)(const uint8_t *src, size_t len, uint8_t *dst, size_t plain_len);
} fedcodec_stage;

/** The k-th stage that this build has, or NULL past the last. */
const fedcodec_stage *fedcodec_stage_at(size_t k);

/** The stage with that id, or NULL: none such, or not in this build. */
const fedcodec_stage *fedcodec_stage_by_id(uint8_t id);

#endif
