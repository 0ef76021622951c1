/* The gangs of workers behind devices, as these told them last: in memory only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_GANGS_H
#define FEDSERVER_GANGS_H

#include <stddef.h>
#include <stdint.h>

#include "fed/gang.h"
#include "fedserver/identity/device_table.h"

/** All gangs together list at most so many workers, so that a status stays small. A device whose
 * gang finds no room is not told so: its gang is not shown. */
enum { FEDSERVER_GANGS = 64, FEDSERVER_GANG_WORKERS = 1024 };

/** A gang is forgotten so long after its device told of it last. */
#define FEDSERVER_GANG_KEPT_MS (INT64_C(3600) * 1000)
/** A gang that was told so lately is one that trains. */
#define FEDSERVER_GANG_FRESH_MS INT64_C(30000)

typedef struct fedserver_gang {
    uint8_t fingerprint[FED_SHA256_SIZE]; /* of the device */
    int64_t heard_ms;
    fed_gang told;
} fedserver_gang;

typedef struct fedserver_gangs {
    fedserver_gang *items[FEDSERVER_GANGS]; /* in the order in which they came first */
    size_t count;
    uint64_t reports; /* since this process started to serve */
} fedserver_gangs;

void fedserver_gangs_free(fedserver_gangs *gangs);

/** Take what a device tells of its own gang, and make its texts fit for people. */
void fedserver_gangs_take(fedserver_gangs *gangs, const fedserver_device *device,
                          const fed_gang *told, int64_t now_ms);

/** Forget the gangs of devices that are gone, revoked or expired, and those that are too old. */
void fedserver_gangs_forget(fedserver_gangs *gangs, const fedserver_devices *devices,
                            int64_t now_ms);

#endif
