/* The history of a run, as its devices and its coordinator's log told it, and a judge of it. The
 * judge knows nothing of the coordinator's code: no header of the project is included here. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_HISTORY_H
#define FED_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What must hold of every history, whatever died:
 *
 *   H1  A lease is one device's, and stands for one message.
 *   H2  Each acknowledged update is in one committed round, and nothing else is: a round counted as
 *       many updates as were acknowledged for it.
 *   H3  Rounds commit once each, in the order of their numbers, also over restarts.
 *   H4  A version has one content, whoever saw it: a model has no fork.
 *   H5  No device is sent back to an older version.
 */
typedef struct fed_history fed_history;

fed_history *fed_history_new(void);
void fed_history_free(fed_history *history);

/** A device was told that an update counts. Told again of the same, it changes nothing.
 *   round   0: not known, since the update may count in a later one
 *   digest  of the message */
void fed_history_acknowledged(fed_history *history, unsigned device, uint64_t lease, uint32_t round,
                              uint64_t digest);

/** A device was told which version to work on, and what the version's content is. Call it in the
 * order of each device's answers. */
void fed_history_announced(fed_history *history, unsigned device, uint32_t version,
                           uint64_t digest);

/** Several coordinators have a log each: what follows is another one's. Their rounds are the same,
 * so H3 holds for each log, and no two say that the same round committed. */
void fed_history_next_log(fed_history *history);

/** The coordinator's log said that a round committed. Call it in the order of the lines. */
void fed_history_committed(fed_history *history, uint32_t round, uint32_t updates);

/** Read a coordinator's log: its lines "round N committed: U updates". False: there is no file. */
bool fed_history_read_log(fed_history *history, const char *path);

/** In the end the coordinator's store has this committed round. */
void fed_history_stored(fed_history *history, uint32_t round, uint32_t updates);

/** Judge. False: why is a sentence that begins with the rule that does not hold. */
bool fed_history_holds(const fed_history *history, char *why, size_t cap);

#endif
