/* Segment files, beside server.db: at most one for each round, with updates too large for a row. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_SEGMENT_H
#define FEDSERVER_STORES_SQLITE_SEGMENT_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>

#include "fed/error.h"

#define FEDSERVER_SEGMENT_NAME "updates-%" PRIu64 "-%" PRIu32 ".seg"

/** The error's format where the disk is full. It takes the path. */
#define FEDSERVER_DISK_FULL                                                                        \
    "%s: the disk is full; free some space and start again: everything acknowledged so far is "    \
    "kept"

/*
 * updates-TASK-ROUND.seg has update bodies, one after the other, and nothing else. A body's row in
 * server.db says where the body lies. A row is committed only after the file has reached the disk.
 * So bytes after the last committed body belong to no row, and the next body overwrites them.
 */
typedef struct fedserver_segment {
    int fd; /* -1: no file is open */
    uint64_t task;
    uint32_t round;
    uint64_t end; /* offset of the next body */
    bool appended;
    bool fresh; /* the file's name may not be on the disk yet */
    char path[1100];
} fedserver_segment;

/** Open the round's file. Where it is missing, create it if `make`, or fail with FED_ENOTFOUND.
 * end: where the last committed body ends; 0: there is none. */
fed_status fedserver_segment_open(fedserver_segment *segment, const char *directory, uint64_t task,
                                  uint32_t round, uint64_t end, bool make,
                                  fed_error *err) FED_CHECKED;
void fedserver_segment_close(fedserver_segment *segment);

/** Append a body. *start = its offset in the file. FED_ENOSPC: the disk is full. */
fed_status fedserver_segment_append(fedserver_segment *segment, const uint8_t *body, size_t len,
                                    uint64_t *start, fed_error *err) FED_CHECKED;

/** Make sure that appended bytes, and the file's name, have reached the disk. */
fed_status fedserver_segment_sync(fedserver_segment *segment, fed_error *err) FED_CHECKED;

/** Read a body of len bytes at offset start. FED_EFORMAT: the file ends before the body does. */
fed_status fedserver_segment_read(const fedserver_segment *segment, uint64_t start, size_t len,
                                  uint8_t *dst, fed_error *err) FED_CHECKED;

/** A function called for each segment file. A failure ends fedserver_segment_each, which returns
 * the failure. */
typedef fed_status (*fedserver_segment_visit)(void *user, const char *path, uint64_t task,
                                              uint32_t round, uint64_t size, fed_error *err);
fed_status fedserver_segment_each(const char *directory, fedserver_segment_visit visit, void *user,
                                  fed_error *err) FED_CHECKED;

#endif
