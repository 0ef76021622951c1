/* Sealed downloads: files that the front hands to caches. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_OBJECT_CACHE_H
#define FEDSERVER_OBJECT_CACHE_H

#include <stdbool.h>
#include <stdio.h>

#include "fed/sealed.h"
#include "fed/wire.h"
#include "fedserver/versions/downloads.h"

/*
 * The process of the rounds seals a download (fed/sealed.h) when the first device asks for it. The
 * sealed bytes lie in DIRECTORY/downloads, in a file with their name. The front serves that file to
 * whoever knows the name. Sealing the same bytes again makes the same file, so nothing here must
 * survive: after a restart the folder is emptied, and filled again as devices ask.
 *
 * Time is bounded: FEDSERVER_OBJECT_CACHE_STEP bytes at once, and FEDSERVER_OBJECT_CACHE_RATE bytes
 * a millisecond in the long run, are hashed and sealed. A large download is sealed by the requests
 * of many devices. Until it is sealed they get the bytes from the coordinator.
 *
 * Disk is bounded: of each task, FEDSERVER_OBJECT_CACHE_SNAPSHOTS times a snapshot's bytes. Files
 * that no device has asked for within FEDSERVER_SNAPSHOT_MS are deleted, and those that were asked
 * for longest ago where there is no room.
 */
enum {
    FEDSERVER_OBJECT_CACHE = 128,          /* files of all tasks */
    FEDSERVER_OBJECT_CACHE_STEP = 4 << 20, /* each byte counts twice: hashed, then sealed */
    FEDSERVER_OBJECT_CACHE_RATE = 32 << 10,
    FEDSERVER_OBJECT_CACHE_SNAPSHOTS = 4,
    FEDSERVER_OBJECT_CACHE_REST_MS = 60000 /* after a failure nothing is sealed for so long */
};

#define FEDSERVER_OBJECT_CACHE_FOLDER "downloads"

typedef struct fedserver_object_cache_item {
    uint64_t task;
    uint64_t tag;        /* of the bytes before they were sealed */
    fed_address address; /* len 0: the slot is free */
    int64_t asked_ms;
} fedserver_object_cache_item;

/** A run to be sealed, and the task that it is of. */
typedef struct fedserver_object_request {
    uint64_t task;
    uint64_t limit; /* bytes of the task's files: FEDSERVER_OBJECT_CACHE_SNAPSHOTS snapshots */
    fedserver_run run;
} fedserver_object_request;

/** A run that is being sealed. */
typedef struct fedserver_sealing {
    fedserver_object_request
        request; /* with a reference to the run's blob; NULL: none is being sealed */
    fed_sha256_sum sum;
    uint8_t key[FED_SEALED_KEY];
    size_t hashed, written;
    FILE *file; /* of the sealed bytes; NULL: not open yet */
    const char *file_name;
} fedserver_sealing;

/** All 0: nothing is sealed yet. */
typedef struct fedserver_object_cache {
    fedserver_object_cache_item items[FEDSERVER_OBJECT_CACHE];
    fedserver_sealing sealing;
    bool swept;  /* the folder is there, and has only this object cache's files */
    size_t work; /* bytes hashed and sealed of late: it shrinks by the rate */
    int64_t work_ms;
    int64_t rests_until_ms;
} fedserver_object_cache;

/** Delete all files, and free the memory. */
void fedserver_object_cache_free(fedserver_object_cache *object_cache, const char *directory);

/** Delete the task's files; 0: those of all tasks. */
void fedserver_object_cache_drop(fedserver_object_cache *object_cache, const char *directory,
                                 uint64_t task);

/**
 * The address of a run. The run is sealed if it is not yet.
 *
 * Errors  FED_EBUSY  the run is not sealed yet: hand out the bytes themselves
 *         FED_ERANGE the run is empty, or larger than the limit
 *         FED_ENOSPC, FED_EIO, FED_ENOMEM: it can't be sealed, and *err says why
 */
fed_status fedserver_object_cache_get(fedserver_object_cache *object_cache, const char *directory,
                                      const fedserver_object_request *request, int64_t now_ms,
                                      fed_address *address, fed_error *err) FED_CHECKED;

/** For the front: the sealed bytes of that name, FED_SEALED_NAME - 1 hex digits. FED_ENOTFOUND:
 * there is no such file, or that is no name. */
fed_status fedserver_object_cache_find(const char *directory, const char *name,
                                       fedserver_blob **blob, fed_error *err) FED_CHECKED;

#endif
