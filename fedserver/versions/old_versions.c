/* Stores some older versions whole, and computes the others from them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/versions/old_versions.h"

#include <stdlib.h>

#include "fed/hash.h"
#include "fed/wire.h"

static fed_status find_keyframe(const fedserver_archive *archive, uint32_t version,
                                fedserver_keyframe *keyframe, bool *found, fed_error *err) {
    fed_error absent = {0};
    fed_status status =
        archive->store->keyframe_find(archive->db, archive->task, version, keyframe, NULL, &absent);
    *found = status == FED_OK;
    /* a damaged keyframe counts as none */
    return *found || status == FED_ENOTFOUND || status == FED_EFORMAT
               ? FED_OK
               : fed_fail(err, status, "%s", absent.text);
}

/* Find out whether a keyframe is due. *last: the newest keyframe. Where there is none,
 * last->version is v's version. */
static fed_status look(const fedserver_archive *archive, const fedserver_versions *v,
                       fedserver_keyframe *last, bool *due, fed_error *err) {
    uint32_t count = 0;
    uint64_t bytes = 0;
    bool found;
    *last = (fedserver_keyframe){.version = v->version};
    FED_TRY(find_keyframe(archive, v->version, last, &found, err));
    if (found) {
        FED_TRY(archive->store->delta_sum(archive->db, archive->task, last->version, &count, &bytes,
                                          err));
    }
    *due = !found || count >= FEDSERVER_CHAIN_PARTS || bytes >= v->snapshot_limit;
    return FED_OK;
}

fed_status fedserver_old_versions_due(const fedserver_archive *archive, const fedserver_versions *v,
                                      bool *due, fed_error *err) {
    fedserver_keyframe last;
    return look(archive, v, &last, due, err);
}

fed_status fedserver_old_versions_keep(const fedserver_archive *archive,
                                       const fedserver_versions *v, uint32_t *reach,
                                       fed_error *err) {
    fedserver_keyframe last, older = {0};
    bool due, found = false;
    FED_TRY(look(archive, v, &last, &due, err));
    if (due) {
        const fedserver_keyframe keyframe = {.version = v->version,
                                             .digest = v->digest,
                                             .values = v->values,
                                             .size = v->layout->size,
                                             .kept = v->kept};
        FED_TRY(archive->store->keyframe_add(archive->db, archive->task, &keyframe, err));
        *reach = last.version;
        return archive->store->keyframe_prune(archive->db, archive->task, last.version, err);
    }
    if (last.version > 0) {
        FED_TRY(find_keyframe(archive, last.version - 1, &older, &found, err));
    }
    *reach = found ? older.version : last.version;
    return FED_OK;
}

typedef struct replay {
    const fed_layout *layout;
    float *values;
    uint32_t version;
} replay;

static fed_status apply_delta(void *user, uint32_t version, const uint8_t *bytes, size_t len,
                              fed_error *err) {
    replay *r = user;
    fed_reader reader;
    fed_part part;
    fed_reader_init(&reader, bytes, len);
    if (version != r->version + 1 || fed_part_read(&reader, &part) != FED_OK) {
        return fed_fail(err, FED_EFORMAT, "the stored delta to version %u is missing or damaged",
                        r->version + 1);
    }
    FED_TRY(fedserver_part_apply(&part, r->layout, r->values, err));
    r->version = version;
    return FED_OK;
}

fed_status fedserver_old_versions_replay(const fedserver_archive *archive,
                                         const fedserver_keyframe *keyframe, float *values,
                                         uint32_t version, fed_error *err) {
    const fed_layout *layout = archive->layout;
    replay r = {.layout = layout, .values = values, .version = keyframe->version};
    if (keyframe->size != layout->size || fed_digest(values, layout->size) != keyframe->digest) {
        return fed_fail(err, FED_EFORMAT, "the stored keyframe of version %u is damaged",
                        keyframe->version);
    }
    FED_TRY(archive->store->delta_each(archive->db, archive->task, r.version, version, apply_delta,
                                       &r, err));
    return r.version == version
               ? FED_OK
               : fed_fail(err, FED_EFORMAT, "the stored delta to version %u is missing",
                          r.version + 1);
}

/* Compute a version's values. If a stored version is damaged or can't be opened, the result is
 * FED_ENOTFOUND, so that devices get another download. `fedserver check` reports the damage. */
fed_status fedserver_old_versions_values(void *user, uint32_t version, float **values,
                                         fed_error *err) {
    const fedserver_archive *archive = user;
    fedserver_keyframe keyframe;
    float *found = NULL;
    fed_error why = {0};
    fed_status status =
        archive->store->keyframe_find(archive->db, archive->task, version, &keyframe, &found, &why);
    if (status == FED_OK) {
        status = fedserver_old_versions_replay(archive, &keyframe, found, version, &why);
    }
    if (status == FED_OK) {
        *values = found;
        return FED_OK;
    }
    free(found);
    if (status == FED_EFORMAT || status == FED_EIO) {
        fed_logf(archive->log, FED_LOG_WARN,
                 "version %u of the model can't be computed: %s; devices get another download",
                 version, why.text);
        status = FED_ENOTFOUND;
    }
    return fed_fail(err, status, "%s", why.text);
}
