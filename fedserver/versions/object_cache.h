/* The object cache: downloads sealed (encrypted) in files that the front gives to HTTP caches. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_OBJECT_CACHE_H
#define FEDSERVER_OBJECT_CACHE_H

#include <stdbool.h>
#include <stdio.h>

#include "fed/sealed.h"
#include "fed/wire.h"
#include "fedserver/versions/downloads.h"

/*
 * The process with the role rounds seals a download (fed/sealed.h) when the first device asks for
 * it. The sealed bytes lie in DIRECTORY/downloads, in a file named after their key. The front
 * serves that file to anyone who asks for that name. Sealing the same bytes again makes the same
 * file, so the folder is emptied after a restart.
 *
 * Time is bounded: FEDSERVER_OBJECT_CACHE_STEP bytes at once, and FEDSERVER_OBJECT_CACHE_RATE bytes
 * a millisecond in the long run, are hashed and sealed. A large download is sealed in steps, by the
 * requests of many devices. Until it is sealed, devices get its bytes from the coordinator.
 *
 * Disk is bounded: each task's files have at most FEDSERVER_OBJECT_CACHE_SNAPSHOTS times a
 * snapshot's bytes. Files that no device has asked for within FEDSERVER_SNAPSHOT_MS are deleted.
 * Where there is no room, the files that were asked for longest ago are deleted.
 */
enum {
    FEDSERVER_OBJECT_CACHE = 128,
    /* each byte counts twice, since it is hashed, then sealed */
    FEDSERVER_OBJECT_CACHE_STEP = 4 << 20,
    FEDSERVER_OBJECT_CACHE_RATE = 32 << 10,
    FEDSERVER_OBJECT_CACHE_SNAPSHOTS = 4,
    FEDSERVER_OBJECT_CACHE_REST_MS = 60000 /* after a failure nothing is sealed for this time */
};

#define FEDSERVER_OBJECT_CACHE_FOLDER "downloads"

typedef struct fedserver_object_cache_item {
    uint64_t task;
    uint64_t tag;        /* name of the bytes before they were sealed */
    fed_address address; /* len 0: the slot is free */
    int64_t asked_ms;
} fedserver_object_cache_item;

typedef struct fedserver_object_request {
    uint64_t task;
    uint64_t limit; /* bytes that the task's files may have together */
    fedserver_run run;
} fedserver_object_request;

typedef struct fedserver_sealing {
    fedserver_object_request
        request; /* holds a reference to its blob; blob NULL: nothing to seal */
    fed_sha256_sum sum;
    uint8_t key[FED_SEALED_KEY];
    size_t hashed, written;
    FILE *file; /* NULL: not open yet */
    const char *file_name;
} fedserver_sealing;

/** The object cache of a process. All members are 0 at first. */
typedef struct fedserver_object_cache {
    fedserver_object_cache_item items[FEDSERVER_OBJECT_CACHE];
    fedserver_sealing sealing;
    bool swept; /* the folder exists, and was emptied of old files */
    /* bytes hashed and sealed lately; falls by FEDSERVER_OBJECT_CACHE_RATE each millisecond */
    size_t work;
    int64_t work_ms;
    int64_t rests_until_ms;
} fedserver_object_cache;

/** Delete all files, and free the memory. */
void fedserver_object_cache_free(fedserver_object_cache *object_cache, const char *directory);

/** Delete the files of a task, or of all tasks where `task` is 0. */
void fedserver_object_cache_drop(fedserver_object_cache *object_cache, const char *directory,
                                 uint64_t task);

/** Get the address of a run's file, and seal the run first if necessary. FED_EBUSY: the run is not
 * sealed yet; send the bytes themselves. FED_ERANGE: the run is empty, or larger than the limit.
 * FED_ENOSPC, FED_EIO, FED_ENOMEM: the run can't be sealed, and *err says why. */
fed_status fedserver_object_cache_get(fedserver_object_cache *object_cache, const char *directory,
                                      const fedserver_object_request *request, int64_t now_ms,
                                      fed_address *address, fed_error *err) FED_CHECKED;

/** Get the sealed bytes of a file by its name, FED_SEALED_NAME - 1 hex digits; for the front.
 * FED_ENOTFOUND: there is no such file, or `name` is not such a name. */
fed_status fedserver_object_cache_find(const char *directory, const char *name,
                                       fedserver_blob **blob, fed_error *err) FED_CHECKED;

#endif
