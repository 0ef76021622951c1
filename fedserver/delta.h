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
 * device misses is a slice of it, shared by all answers. A chain that has grown larger than a
 * snapshot loses its oldest deltas: nobody would want them.
 *
 * A slow device is still fetching version k when k + 1 is made. The chain leads to k as long as it
 * reaches back that far; a snapshot of k stays too, for as long as somebody asks for it every
 * FEDSERVER_SNAPSHOT_MS, and there are at most FEDSERVER_SNAPSHOTS of them, the newest version's
 * included. Where all are in use and another version's is asked for, the youngest goes: so those
 * who have begun first get to the end, whatever others do.
 */
enum { FEDSERVER_SNAPSHOTS = 3, FEDSERVER_SNAPSHOT_MS = 30 * 60 * 1000 };

/** One delta in the chain. */
typedef struct fedserver_link {
    size_t start;    /* where it begins */
    uint64_t digest; /* of its bytes */
} fedserver_link;

typedef struct fedserver_snapshot {
    fedserver_blob *blob; /* NULL: none */
    uint32_t version;
    uint64_t tag;
    int64_t asked_ms;
} fedserver_snapshot;

typedef struct fedserver_versions {
    const fed_layout *layout; /* the task's; outlives this */
    uint32_t version;
    uint64_t digest;
    float *values;   /* float32[layout->size] */
    float *residual; /* float32[layout->size]: what the deltas so far have left out */

    fedserver_blob *chain; /* turns version `oldest` into oldest + parts; NULL: no part */
    uint32_t oldest, parts;
    fedserver_link *links; /* links[k]: the part from version oldest + k */
    size_t links_cap;

    size_t snapshot_limit;                             /* bytes that a snapshot can have */
    fedserver_snapshot snapshots[FEDSERVER_SNAPSHOTS]; /* each made when first asked for */
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

/**
 * The parts that bring a device from what it has (`any`: nothing, or it is unknown) to version
 * `want`: a share for the caller. *tag names these very bytes, also over a restart. FED_ENOTFOUND:
 * that version is not made yet, or not kept any more.
 */
fed_status fedserver_versions_get(fedserver_versions *v, bool any, uint32_t have, uint32_t want,
                                  int64_t now_ms, fedserver_blob **parts, uint64_t *tag,
                                  fed_error *err) FED_CHECKED;

/** Let go of snapshots that nobody asks for any more. */
void fedserver_versions_trim(fedserver_versions *v, int64_t now_ms);

#endif
