/* One file a round, beside server.db, for the bodies that are too large for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_SEGMENT_H
#define FEDSERVER_STORES_SQLITE_SEGMENT_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>

#include "fed/error.h"

/** Its name in the coordinator's directory: task (PRIu64), round (PRIu32). */
#define FEDSERVER_SEGMENT_NAME "updates-%" PRIu64 "-%" PRIu32 ".seg"

/** What to tell a person whose disk is full. The format takes the path. */
#define FEDSERVER_DISK_FULL                                                                        \
    "%s: the disk is full; free some space and start again: everything acknowledged so far is "    \
    "kept"

/*
 * updates-TASK-ROUND.seg: bodies, one after the other, nothing else. The body's row of server.db
 * says where it lies, and a row is committed only after the file has reached the disk. So bytes
 * after the last committed body belong to no row, and the next body overwrites them.
 */
typedef struct fedserver_segment {
    int fd; /* -1: no file is open, and no other member means anything */
    uint64_t task;
    uint32_t round;
    uint64_t end;  /* where the next body goes */
    bool appended; /* bytes were appended since the last sync */
    bool fresh;    /* the file's name may not have reached the disk */
    char path[1100];
} fedserver_segment;

/** Open that round's file; `make` it where it is missing (else FED_ENOTFOUND).   end  of the last
 * committed body, 0: there is none */
fed_status fedserver_segment_open(fedserver_segment *segment, const char *directory, uint64_t task,
                                  uint32_t round, uint64_t end, bool make,
                                  fed_error *err) FED_CHECKED;
void fedserver_segment_close(fedserver_segment *segment);

/** Append a body. *start = where it lies. FED_ENOSPC: the disk is full. */
fed_status fedserver_segment_append(fedserver_segment *segment, const uint8_t *body, size_t len,
                                    uint64_t *start, fed_error *err) FED_CHECKED;

/** Make sure that appended bytes, and the file's name, have reached the disk. */
fed_status fedserver_segment_sync(fedserver_segment *segment, fed_error *err) FED_CHECKED;

/** FED_EFORMAT: the file ends before the body does. */
fed_status fedserver_segment_read(const fedserver_segment *segment, uint64_t start, size_t len,
                                  uint8_t *dst, fed_error *err) FED_CHECKED;

/** Is called for each segment file of a directory; a failure ends the walk and becomes its result.
 */
typedef fed_status (*fedserver_segment_visit)(void *user, const char *path, uint64_t task,
                                              uint32_t round, uint64_t size, fed_error *err);
fed_status fedserver_segment_each(const char *directory, fedserver_segment_visit visit, void *user,
                                  fed_error *err) FED_CHECKED;

#endif
