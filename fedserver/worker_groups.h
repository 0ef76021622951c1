/* The worker groups behind devices, as the devices last reported them; kept in memory only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_WORKER_GROUPS_H
#define FEDSERVER_WORKER_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "fed/worker_group.h"
#include "fedserver/identity/device_table.h"

/** Limits, so that a status stays small: of worker groups, and of workers in all of them together.
 * A report beyond a limit is ignored, and its device is not told so. */
enum { FEDSERVER_WORKER_GROUPS = 64, FEDSERVER_WORKER_GROUP_WORKERS = 1024 };

/** A worker group is forgotten when its device has not reported it for this time. */
#define FEDSERVER_WORKER_GROUP_KEPT_MS (INT64_C(3600) * 1000)
/** A worker group counts as training if its last report is younger than this. */
#define FEDSERVER_WORKER_GROUP_FRESH_MS INT64_C(30000)

typedef struct fedserver_worker_group {
    uint8_t fingerprint[FED_SHA256_SIZE];
    int64_t heard_ms;
    fed_worker_group told;
} fedserver_worker_group;

typedef struct fedserver_worker_groups {
    fedserver_worker_group *items[FEDSERVER_WORKER_GROUPS]; /* in order of first report */
    size_t count;
    uint64_t reports; /* number of reports since this process started to serve */
} fedserver_worker_groups;

void fedserver_worker_groups_free(fedserver_worker_groups *groups);

/** Store a device's report of its worker group. Unprintable characters in its texts are
 * replaced. */
void fedserver_worker_groups_take(fedserver_worker_groups *groups, const fedserver_device *device,
                                  const fed_worker_group *told, int64_t now_ms);

/** Forget the worker groups of devices that are gone, revoked or expired, and those whose last
 * report is FEDSERVER_WORKER_GROUP_KEPT_MS old or older. */
void fedserver_worker_groups_forget(fedserver_worker_groups *groups,
                                    const fedserver_devices *devices, int64_t now_ms);

#endif
