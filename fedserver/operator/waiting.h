/* Finds what an open round waits for: which devices, until when, and what happens then. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_WAITING_H
#define FEDSERVER_WAITING_H

#include <stddef.h>
#include <stdint.h>

#include "fedserver/rounds/rounds.h"

/* At most so many devices are named, each by so many digits of its fingerprint. */
enum { FEDSERVER_WAITING_NAMES = 4, FEDSERVER_WAITING_DIGITS = 8 };

typedef struct fedserver_waiting {
    uint32_t out; /* devices that have a lease and have not reported */
    uint32_t free;
    /* first digits of the fingerprints of the devices in `out` that enrolled first */
    char names[FEDSERVER_WAITING_NAMES][FEDSERVER_WAITING_DIGITS + 1];
    int64_t lease_ends_ms; /* when the first lease of the devices in `out` ends */
    uint32_t declined;
} fedserver_waiting;

void fedserver_waiting_find(const fedserver_training *training, int64_t now_ms,
                            fedserver_waiting *waiting);

/** Write *waiting as a sentence that follows "waiting for", cut to cap bytes. */
void fedserver_waiting_report(const fedserver_training *training, const fedserver_waiting *waiting,
                              int64_t now_ms, char *dst, size_t cap);

#endif
