/* Versions before the newest: which of them are kept whole, and how the others come back. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PAST_H
#define FEDSERVER_PAST_H

#include <stdint.h>

#include "fed/log.h"
#include "fed/model.h"
#include "fedserver/stores/store.h"
#include "fedserver/versions/delta.h"

/*
 * A version is kept whole, as a keyframe, when the deltas since the last one have come to a
 * snapshot's bytes. The last two keyframes stay, and the deltas since the older one. So in the long
 * run a commit writes no more for this than deltas take; the versions of the last one to two
 * snapshots' worth of deltas can be had again; and for each no more than one snapshot's worth of
 * deltas is read and applied.
 */

/** Where the versions of one task are stored. */
typedef struct fedserver_archive {
    const fedserver_store *store;
    void *db;
    uint64_t task;
    const fed_layout *layout; /* its model's */
    const fed_log *log;       /* gets a warning where a stored version is damaged */
} fedserver_archive;

/** The newest version, v, is about to become one before the newest: keep it whole if it is due, and
 * forget keyframes. *reach = the oldest one that is left: deltas that lead to versions after it are
 * needed. */
fed_status fedserver_past_keep(const fedserver_archive *archive, const fedserver_versions *v,
                               uint32_t *reach, fed_error *err) FED_CHECKED;

/** values, the keyframe's, become those of that version or a later one. FED_EFORMAT: what is stored
 * does not lead there. */
fed_status fedserver_past_replay(const fedserver_archive *archive,
                                 const fedserver_keyframe *keyframe, float *values,
                                 uint32_t version, fed_error *err) FED_CHECKED;

/** A fedserver_past (fedserver/versions/downloads.h): user is a const fedserver_archive. */
fed_status fedserver_past_values(void *user, uint32_t version, float **values,
                                 fed_error *err) FED_CHECKED;

#endif
