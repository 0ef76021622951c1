/* The versions of a task's model: how round k's mean makes version k, and what devices download. */
#ifndef FEDSERVER_DELTA_H
#define FEDSERVER_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/model.h"
#include "fedcodec/codec.h"
#include "fedserver/blob.h"

/*
 * Every device applies the very deltas that the coordinator applied itself, so both hold the same
 * bits. The deltas of recent versions lie one behind the other in a single blob, the chain: what a
 * device misses is a suffix of it, shared by all answers. A chain that has grown larger than a
 * snapshot loses its oldest deltas: nobody would want them.
 */
typedef struct fedserver_versions {
    const fed_layout *layout; /* the task's; outlives this */
    uint32_t version;
    uint64_t digest;
    float *values;   /* float32[layout->size] */
    float *residual; /* float32[layout->size]: what the deltas so far have left out */

    fedserver_blob *chain; /* turns version `oldest` into oldest + parts; NULL: no part */
    uint32_t oldest, parts;
    size_t *starts; /* starts[k]: where the part from version oldest + k begins */
    size_t starts_cap;

    size_t snapshot_limit;    /* bytes that a snapshot can have */
    fedserver_blob *snapshot; /* of `version`; made when first asked for */
} fedserver_versions;

/** Takes values and residual (NULL: zeros), which were malloc'd, even on failure. Owner:
 * fedserver_versions_free. */
fed_status fedserver_versions_init(fedserver_versions *v, const fed_layout *layout,
                                   uint32_t version, float *values, float *residual) FED_CHECKED;
void fedserver_versions_free(fedserver_versions *v);

/**
 * Make the next version: delta = codec(mean + residual); values += delta. *part is the new
 * fed_part, in the chain's bytes until the next version.
 */
fed_status fedserver_versions_advance(fedserver_versions *v, const fedcodec *codec, uint32_t small,
                                      const float *mean, const uint8_t **part, size_t *part_len,
                                      fed_error *err) FED_CHECKED;

/** After a restart: append the part that led to version `to`; oldest first, without a gap
 * (FED_EFORMAT), the last one leads to v->version. */
fed_status fedserver_versions_append(fedserver_versions *v, uint32_t to, const uint8_t *part,
                                     size_t len) FED_CHECKED;

/** The parts that bring a device from what it has (`any`: nothing, or it is unknown) to v->version:
 * a share for the caller. */
fed_status fedserver_versions_get(fedserver_versions *v, bool any, uint32_t have,
                                  fedserver_blob **parts, fed_error *err) FED_CHECKED;

#endif
