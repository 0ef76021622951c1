/* Older versions of a model: some are stored whole (keyframes), the others computed from them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_OLD_VERSIONS_H
#define FEDSERVER_OLD_VERSIONS_H

#include <stdint.h>

#include "fed/log.h"
#include "fed/model.h"
#include "fedserver/stores/store.h"
#include "fedserver/versions/delta.h"

/* A version is stored whole, as a keyframe, when the deltas since the last keyframe have as many
 * bytes as a snapshot, or when there are FEDSERVER_CHAIN_PARTS deltas. The last two keyframes stay,
 * and the deltas since the older one. So all versions since the older keyframe can be computed
 * again, from deltas of about one snapshot's bytes at most. */

typedef struct fedserver_archive {
    const fedserver_store *store;
    void *db;
    uint64_t task;
    const fed_layout *layout;
    const fed_log *log; /* gets a warning if a stored version is damaged */
} fedserver_archive;

/** Set *due to whether fedserver_old_versions_keep would now store v whole, as a keyframe. */
fed_status fedserver_old_versions_due(const fedserver_archive *archive, const fedserver_versions *v,
                                      bool *due, fed_error *err) FED_CHECKED;

/** Store v as a keyframe if one is due, and delete old keyframes. Call it before v stops being the
 * newest version. *reach = the version of the oldest keyframe that is left. The deltas to later
 * versions are needed. */
fed_status fedserver_old_versions_keep(const fedserver_archive *archive,
                                       const fedserver_versions *v, uint32_t *reach,
                                       fed_error *err) FED_CHECKED;

/** Apply deltas to a keyframe's values, up to `version`. FED_EFORMAT: the keyframe is damaged, or
 * the deltas do not lead there. */
fed_status fedserver_old_versions_replay(const fedserver_archive *archive,
                                         const fedserver_keyframe *keyframe, float *values,
                                         uint32_t version, fed_error *err) FED_CHECKED;

/** The function `values` of fedserver_old_versions. user: a const fedserver_archive. */
fed_status fedserver_old_versions_values(void *user, uint32_t version, float **values,
                                         fed_error *err) FED_CHECKED;

#endif
