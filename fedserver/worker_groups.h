/* The worker groups of workers behind devices, as these told them last: in memory only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_WORKER_GROUPS_H
#define FEDSERVER_WORKER_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "fed/worker_group.h"
#include "fedserver/identity/device_table.h"

/** All worker groups together list at most so many workers, so that a status stays small. A device
 * whose worker group finds no room is not told so: its worker group is not shown. */
enum { FEDSERVER_WORKER_GROUPS = 64, FEDSERVER_WORKER_GROUP_WORKERS = 1024 };

/** A worker group is forgotten so long after its device told of it last. */
#define FEDSERVER_WORKER_GROUP_KEPT_MS (INT64_C(3600) * 1000)
/** A worker group that was told so lately is one that trains. */
#define FEDSERVER_WORKER_GROUP_FRESH_MS INT64_C(30000)

typedef struct fedserver_worker_group {
    uint8_t fingerprint[FED_SHA256_SIZE]; /* of the device */
    int64_t heard_ms;
    fed_worker_group told;
} fedserver_worker_group;

typedef struct fedserver_worker_groups {
    fedserver_worker_group
        *items[FEDSERVER_WORKER_GROUPS]; /* in the order in which they came first */
    size_t count;
    uint64_t reports; /* since this process started to serve */
} fedserver_worker_groups;

void fedserver_worker_groups_free(fedserver_worker_groups *groups);

/** Take what a device tells of its own worker group, and make its texts fit for people. */
void fedserver_worker_groups_take(fedserver_worker_groups *groups, const fedserver_device *device,
                                  const fed_worker_group *told, int64_t now_ms);

/** Forget the worker groups of devices that are gone, revoked or expired, and those that are too
 * old. */
void fedserver_worker_groups_forget(fedserver_worker_groups *groups,
                                    const fedserver_devices *devices, int64_t now_ms);

#endif
