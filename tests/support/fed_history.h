/* The history of a run, as the devices and the coordinator's log tell it, and a check of it. The
 * check must not depend on the coordinator's code, so no header of the project is included here. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_HISTORY_H
#define FED_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Rules that every history must keep, whichever process died:
 *
 *   H1  A lease belongs to one device, and stands for one message.
 *   H2  A committed round counts exactly the updates that were acknowledged for it, and an update
 *       counts in one round only.
 *   H3  Each round commits once, in the order of the numbers, also across restarts.
 *   H4  A version has one content for all devices.
 *   H5  No device is sent back to an older version.
 */
typedef struct fed_history fed_history;

fed_history *fed_history_new(void);
void fed_history_free(fed_history *history);

/**
 * Note that a device was told that its update counts. Repeats are allowed.
 *
 * round   0: not known, since the update may count in a later round
 * digest  of the message
 */
void fed_history_acknowledged(fed_history *history, unsigned device, uint64_t lease, uint32_t round,
                              uint64_t digest);

/** Note that a device was told to work on this version, whose content has this digest. Call this in
 * the order of each device's answers. */
void fed_history_announced(fed_history *history, unsigned device, uint32_t version,
                           uint64_t digest);

/** Begin the log of the next coordinator of the same task. H3 holds for each log, and no two logs
 * may report the same round as committed. */
void fed_history_next_log(fed_history *history);

/** Note that the log reported a committed round. Call this in the order of the lines. */
void fed_history_committed(fed_history *history, uint32_t round, uint32_t updates);

/** Read the lines "round N committed: U updates" of a coordinator's log; false: there is no
 * file. */
bool fed_history_read_log(fed_history *history, const char *path);

/** Note that the coordinator's store has this committed round at the end of the run. */
void fed_history_stored(fed_history *history, uint32_t round, uint32_t updates);

/** Check the rules. If one is broken, return false and write to `why` a sentence that begins with
 * the rule. */
bool fed_history_holds(const fed_history *history, char *why, size_t cap);

#endif
