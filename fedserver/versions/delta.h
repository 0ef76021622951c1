/* The versions of a task's model: how a round's mean makes one, and the deltas between them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DELTA_H
#define FEDSERVER_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/model.h"
#include "fed/wire.h"
#include "fedcodec/codec.h"
#include "fedserver/versions/blob.h"

/*
 * A device applies the same deltas that the coordinator applied, so both have the same bits.
 * The deltas of recent versions lie one after the other in a single blob, the chain. The deltas
 * that a device lacks are a slice of the chain, and all answers share the chain's bytes. A chain
 * that has grown larger than a snapshot's values loses its oldest deltas, because devices then get
 * a snapshot, which is shorter (fedserver/versions/downloads.h).
 */
enum { FEDSERVER_CHAIN_PARTS = 1024 };

/** One part of the chain: a delta, or a patch where the version's values were given. */
typedef struct fedserver_link {
    size_t start;
    uint64_t digest;
    bool patch;
    size_t plain_len; /* fedserver_versions_plain_len of this part */
} fedserver_link;

typedef struct fedserver_versions {
    const fed_layout *layout; /* the task's layout; it outlives this struct */
    uint32_t version;
    uint64_t digest;
    float *values; /* float32[layout->size] */
    /* float32[layout->size]: what the lossy deltas left out; NULL while a version is made */
    float *residual;
    bool kept;

    /* the parts that turn version `oldest` into version oldest + parts; NULL: there is no part */
    fedserver_blob *chain;
    uint32_t oldest, parts;
    fedserver_link *links; /* links[k] describes the part from version oldest + k */
    size_t links_cap;

    size_t snapshot_limit; /* upper limit of a snapshot's bytes */
} fedserver_versions;

/** Begin with one version and an empty chain. Takes ownership of values and residual (NULL: zeros),
 * also after a failure; both must come from malloc. Owner: fedserver_versions_free. */
fed_status fedserver_versions_init(fedserver_versions *v, const fed_layout *layout,
                                   uint32_t version, float *values, float *residual) FED_CHECKED;
void fedserver_versions_free(fedserver_versions *v);

/**
 * Make the next version beside v: delta = codec(mean + residual); next->values = v->values +
 * delta. What the delta leaves out becomes the residual, also with a codec that has none of its
 * own but lengthens values, such as eden. Only v's values and chain are read, so another thread may
 * serve v meanwhile.
 * residual: v's residual, float32[layout->size] from malloc. It is changed in place, and belongs
 * to `next` afterwards. On failure it belongs to the caller again, but its values are useless, and
 * `next` is unchanged.
 * Memory: the model's values once more, and the chain.
 */
fed_status fedserver_versions_next(const fedserver_versions *v, const fedcodec *codec,
                                   uint32_t small, const float *mean, float *residual,
                                   fedserver_versions *next, fed_error *err) FED_CHECKED;

/** The bytes of the chain's newest part (a fed_part), and their digest. The chain owns them. */
const uint8_t *fedserver_versions_part(const fedserver_versions *v, size_t *len, uint64_t *digest);

/** Make the next version from given values, which become next->values to the bit. The part is a
 * patch, and the residual becomes 0. Else the same as fedserver_versions_next. FED_ENONFINITE: a
 * value is not finite. */
fed_status fedserver_versions_given(const fedserver_versions *v, const float *values,
                                    float *residual, fedserver_versions *next,
                                    fed_error *err) FED_CHECKED;

/** Append to the chain the part that leads to version `to`. Append the oldest part first, leave no
 * gap (FED_EFORMAT: there is one), and end with the part that leads to v->version. */
fed_status fedserver_versions_append(fedserver_versions *v, uint32_t to, const uint8_t *part,
                                     size_t len) FED_CHECKED;

/** Do the chain's parts lead from version `have` to `want`? patches: parts may be patches. */
bool fedserver_versions_leads(const fedserver_versions *v, uint32_t have, uint32_t want,
                              bool patches);

/** The bytes of the parts from version `have` to `want`. The chain must lead there. */
size_t fedserver_versions_chain_len(const fedserver_versions *v, uint32_t have, uint32_t want);

/** Get the parts from version `have` to `want` as one blob, of which the caller gets a reference.
 * *tag: a digest that names these bytes. */
fed_status fedserver_versions_chain(const fedserver_versions *v, uint32_t have, uint32_t want,
                                    fedserver_blob **parts, uint64_t *tag) FED_CHECKED;

/** The number of bytes that the parts from version `have` to `want` have without second stages
 * (lossless passes after a codec), or up to 4 bytes less for each part. The result is larger than
 * fedserver_versions_chain_len where a second stage packs one of the parts. */
size_t fedserver_versions_plain_len(const fedserver_versions *v, uint32_t have, uint32_t want);

/** Append to `parts` the chain's parts from version `have` to `want`, without second stages. The
 * chain must lead there. */
fed_status fedserver_versions_unpack(const fedserver_versions *v, uint32_t have, uint32_t want,
                                     fed_writer *parts, fed_error *err) FED_CHECKED;

/** Append to `part` a fed_part with the patch from one version's values to another's, float32[n]
 * each. from NULL: zeros. *versions gives the versions' numbers. Errors: those of
 * fedcodec_patch_write. */
fed_status fedserver_part_patch(const fed_part *versions, const float *from, const float *to,
                                size_t n, fed_writer *part, fed_error *err) FED_CHECKED;

/** Apply a delta or a patch to `values`, which are those of the version from which the part leads.
 * FED_EFORMAT: the part is damaged. */
fed_status fedserver_part_apply(const fed_part *part, const fed_layout *layout, float *values,
                                fed_error *err) FED_CHECKED;

/** Append to `part` a fed_part with an envelope of `codec`. For the other parameters and errors see
 * fedcodec_envelope_encode. */
fed_status fedserver_part_encode(fed_part_kind kind, uint32_t from, uint32_t to,
                                 const fedcodec *codec, const fed_layout *layout, uint32_t small,
                                 float *residual, const float *x, fed_writer *part,
                                 fed_error *err) FED_CHECKED;

#endif
