/* What a device that lacks a version is sent: the shortest of deltas, a patch and a snapshot. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DOWNLOADS_H
#define FEDSERVER_DOWNLOADS_H

#include "fedserver/versions/delta.h"

/*
 * A short chain of deltas costs nothing to hand out, and nothing is shorter. Beyond a quarter of a
 * snapshot's values the other ways are looked at: one patch from the version held to the wanted
 * one, or the wanted one from nothing, which is a patch too. Devices that can't read patches get
 * the chain or the values.
 *
 * Patches and snapshots are made when they are first asked for, from values that the newest version
 * has or that `past` brings back, and are kept for those who fetch them slowly. The same bytes come
 * out whenever they are made again, also after a restart: what is kept saves time, nothing else.
 * The time that making takes is bounded: after each but the newest version's snapshot nothing is
 * made for a while, and who comes then gets what there is. So is memory:
 *
 * - FEDSERVER_SNAPSHOTS snapshots, the newest version's included. Where all are in use and another
 *   version's is asked for, the youngest goes: those who began first get to the end;
 * - patches of up to two snapshots' bytes. One to the newest version that was asked for within
 *   FEDSERVER_PATCH_MS does not make room for another.
 *
 * What no device has asked for within FEDSERVER_SNAPSHOT_MS is freed.
 */
enum {
    FEDSERVER_SNAPSHOTS = 3,
    FEDSERVER_PATCHES = 16,
    FEDSERVER_SNAPSHOT_MS = 30 * 60 * 1000,
    FEDSERVER_PATCH_MS = 60 * 1000,
    FEDSERVER_MADE_VALUES = 1024 /* 1 ms without making follows each 1024 values that were made */
};

/** An answer that was made. */
typedef struct fedserver_made {
    fedserver_blob *blob; /* a fed_part; NULL: none */
    fed_part_kind kind;
    uint32_t from, to; /* as in the part */
    uint64_t tag;
    int64_t asked_ms;
} fedserver_made;

typedef struct fedserver_downloads {
    fedserver_made snapshots[FEDSERVER_SNAPSHOTS]; /* values, or patches from nothing */
    fedserver_made patches[FEDSERVER_PATCHES];
    int64_t rests_until_ms;
} fedserver_downloads;

void fedserver_downloads_free(fedserver_downloads *d);

/** Values of a version before the newest: float32[layout->size], the caller's to free().
 * FED_ENOTFOUND: they can't be had any more. */
typedef struct fedserver_past {
    fed_status (*values)(void *user, uint32_t version, float **values, fed_error *err);
    void *user;
} fedserver_past;

typedef struct fedserver_wish {
    bool any; /* it holds nothing, or what it holds is unknown */
    uint32_t have, want;
    bool patches; /* it can read them */
} fedserver_wish;

/**
 * The parts that bring a device to version `want`: a share for the caller. *tag names these very
 * bytes, also over a restart. FED_ENOTFOUND: that version is not made yet, or can't be had any more
 * or not now.
 */
fed_status fedserver_downloads_get(fedserver_downloads *d, const fedserver_versions *v,
                                   const fedserver_past *past, const fedserver_wish *wish,
                                   int64_t now_ms, fedserver_blob **parts, uint64_t *tag,
                                   fed_error *err) FED_CHECKED;

/** What is kept, as bytes; and back. FED_EFORMAT, FED_ENOMEM. */
void fedserver_downloads_write(const fedserver_downloads *d, fed_writer *w);
fed_status fedserver_downloads_read(fedserver_downloads *d, fed_reader *r) FED_CHECKED;

/** Free what no device has asked for within FEDSERVER_SNAPSHOT_MS, but not the newest version's
 * snapshots. */
void fedserver_downloads_trim(fedserver_downloads *d, uint32_t newest, int64_t now_ms);

#endif
