/* Chooses what to send to a device that lacks a version: deltas, a patch or a snapshot. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DOWNLOADS_H
#define FEDSERVER_DOWNLOADS_H

#include "fedserver/versions/delta.h"

/*
 * A short chain of deltas costs nothing to make. If the chain is longer than a quarter of a
 * snapshot's values, up to two patches are considered as well. The first leads from the device's
 * version to the wanted one. The second leads from zeros to the wanted version: a snapshot. Devices
 * that can't read patches get the chain or the plain values.
 *
 * Devices that can't read second stages (lossless passes after a codec) get the chain unpacked. If
 * the unpacked chain can't be made now, or is longer than a snapshot's values, these devices get a
 * patch or a snapshot.
 *
 * Patches and snapshots are made when a device first asks for them, and are kept for a while. A
 * patch or snapshot that is made again has the same bytes.
 *
 * The time for making is bounded: after a patch, an unpacked chain or an old version's snapshot
 * was made, none of these is made for a while. Memory is bounded too:
 *
 * - There are at most FEDSERVER_SNAPSHOTS snapshots. To make room for another one, the snapshot of
 * the newest version among them is freed, so that devices that began first can finish.
 *
 * - The patches and unpacked chains have at most about two snapshots' bytes. A patch to the
 * newest version that a device asked for within FEDSERVER_PATCH_MS is not freed to make room for
 * another patch.
 *
 * A patch or an old version's snapshot that no device has asked for within FEDSERVER_SNAPSHOT_MS is
 * freed.
 */
enum {
    FEDSERVER_SNAPSHOTS = 3,
    FEDSERVER_PATCHES = 16,
    FEDSERVER_SNAPSHOT_MS = 30 * 60 * 1000,
    FEDSERVER_PATCH_MS = 60 * 1000,
    /* for a model with N values, that pause lasts N / 1024 ms */
    FEDSERVER_MADE_VALUES = 1024
};

typedef struct fedserver_made {
    fedserver_blob *blob; /* the bytes of one or more fed_parts; NULL: the slot is free */
    fed_part_kind kind;
    uint32_t from, to;
    uint64_t tag;
    int64_t asked_ms; /* 0: no device has asked yet */
} fedserver_made;

typedef struct fedserver_downloads {
    fedserver_made snapshots[FEDSERVER_SNAPSHOTS]; /* the plain values, or patches from zeros */
    fedserver_made patches[FEDSERVER_PATCHES];
    int64_t rests_until_ms;
} fedserver_downloads;

void fedserver_downloads_free(fedserver_downloads *d);

/** Computes the values of a version before the newest: float32[layout->size], which the caller
 * frees. FED_ENOTFOUND: the version can't be computed any more. */
typedef struct fedserver_old_versions {
    fed_status (*values)(void *user, uint32_t version, float **values, fed_error *err);
    void *user;
} fedserver_old_versions;

typedef struct fedserver_download_request {
    bool any; /* the device has no version, or an unknown one */
    uint32_t have, want;
    bool patches;
    bool stages; /* the device can read second stages (lossless passes after a codec) */
} fedserver_download_request;

/** Get the parts that bring a device to version `want`, as a blob of which the caller gets a
 * reference. *tag: a digest that names these bytes. FED_ENOTFOUND: the version does not exist yet,
 * or can't be made any more, or not now. */
fed_status fedserver_downloads_get(fedserver_downloads *d, const fedserver_versions *v,
                                   const fedserver_old_versions *old,
                                   const fedserver_download_request *request, int64_t now_ms,
                                   fedserver_blob **parts, uint64_t *tag,
                                   fed_error *err) FED_CHECKED;

/** A run: parts of a download in one file that HTTP caches can serve to many devices. */
typedef struct fedserver_run {
    fedserver_blob *blob; /* the run holds a reference */
    uint64_t tag;
} fedserver_run;

/** Get the same parts as fedserver_downloads_get, cut into runs so that devices that lack different
 * versions share most runs. A chain of deltas is cut into runs of 1, 2, 4, 8, ... deltas. A run
 * begins at a version that is a multiple of its length. The caller frees the runs' blobs. Errors:
 * those of fedserver_downloads_get; then there are no runs. */
fed_status fedserver_downloads_runs(fedserver_downloads *d, const fedserver_versions *v,
                                    const fedserver_old_versions *old,
                                    const fedserver_download_request *request, int64_t now_ms,
                                    fedserver_run runs[FED_ADDRESSES], size_t *count,
                                    fed_error *err) FED_CHECKED;

/** Has a device asked for a snapshot of this kind of the newest version? */
bool fedserver_downloads_wanted(const fedserver_downloads *d, uint32_t newest, fed_part_kind kind);

/** Make a snapshot of that kind of the newest version, before a device asks for it. Only reads v.
 * The caller owns *made, until fedserver_downloads_add takes it. */
fed_status fedserver_downloads_make(const fedserver_versions *v, fed_part_kind kind,
                                    fedserver_made *made, fed_error *err) FED_CHECKED;
void fedserver_downloads_add(fedserver_downloads *d, fedserver_made *made);

/** Write the kept downloads as bytes, and read them back. FED_EFORMAT: the bytes are damaged. */
void fedserver_downloads_write(const fedserver_downloads *d, fed_writer *w);
fed_status fedserver_downloads_read(fedserver_downloads *d, fed_reader *r) FED_CHECKED;

/** Free the downloads that no device has asked for within FEDSERVER_SNAPSHOT_MS. The newest
 * version's snapshots stay. */
void fedserver_downloads_trim(fedserver_downloads *d, uint32_t newest, int64_t now_ms);

#endif
