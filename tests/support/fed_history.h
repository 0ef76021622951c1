/* The history of a run as the devices and the coordinator's log report it, and rules to check it.
 * To be independent, this header includes no other of the project. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_HISTORY_H
#define FED_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Rules that every history must keep, whichever process died:
 *
 *   H1  A lease belongs to one device and one message.
 *   H2  A committed round counts exactly the updates that were acknowledged for it, and an update
 *       counts in one round only.
 *   H3  Rounds commit once each, in ascending order.
 *   H4  A version has the same content for all devices.
 *   H5  No device gets an older version after a newer one.
 */
typedef struct fed_history fed_history;

fed_history *fed_history_new(void);
void fed_history_free(fed_history *history);

/**
 * Record that an update was acknowledged to a device, perhaps repeatedly.
 *
 * round   0: not known
 * digest  of the message
 */
void fed_history_acknowledged(fed_history *history, unsigned device, uint64_t lease, uint32_t round,
                              uint64_t digest);

/** Record that a device was told to use this version, with this digest of its values. Keep the
 * order of the device's answers. */
void fed_history_announced(fed_history *history, unsigned device, uint32_t version,
                           uint64_t digest);

/** Begin the log of another coordinator. H3 holds for each log, and no two logs may report the same
 * round. */
void fed_history_next_log(fed_history *history);

/** Record a committed round of the log. Keep the log's order. */
void fed_history_committed(fed_history *history, uint32_t round, uint32_t updates);

/** Read the lines "round N: committed with U updates" of a log. Returns false if the file can't be
 * opened. */
bool fed_history_read_log(fed_history *history, const char *path);

/** Record that the coordinator's store has this committed round at the end of the run. */
void fed_history_stored(fed_history *history, uint32_t round, uint32_t updates);

/** Check the rules. Returns false and a sentence in `why` if one is broken. */
bool fed_history_holds(const fed_history *history, char *why, size_t cap);

#endif
