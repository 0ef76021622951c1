/* Says what a task needs that the software of a device does not know. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_NEWER_H
#define FEDSERVER_NEWER_H

#include <stdbool.h>

#include "fed/wire.h"
#include "fedserver/task/task.h"

/** A word of a task that the device does not know, such as "eden" of the key "codec_up". */
typedef struct fedserver_unknown {
    const char *word; /* NULL: the device knows all words */
    const char *key;
} fedserver_unknown;

/** Does a device with this check-in know all words of all tasks? Devices of this release do. */
bool fedserver_knows_all(const fed_checkin *checkin);

/** Find a word of the task that a device with this check-in does not know. told: the task as
 * devices are told it in round `round`. The device may download the deltas of earlier rounds, so it
 * must know their codecs, too. */
fedserver_unknown fedserver_newer(const fedserver_task *task, uint32_t round, const fed_task *told,
                                  const fed_checkin *checkin);

#endif
