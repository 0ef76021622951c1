/* The list of devices that have a lease of one task. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_LEASE_LIST_H
#define FEDSERVER_LEASE_LIST_H

#include "fedserver/identity/device_table.h"

/** A device with the lease that it had when it was listed. */
typedef struct fedserver_listed_lease {
    fedserver_device *device;
    uint64_t lease;
} fedserver_listed_lease;

/** Each lease of a task that still holds is in the task's list, once. Leases that have ended may be
 * in the list, too, until the list is looked through. A list of zeros is empty. */
typedef struct fedserver_lease_list {
    fedserver_listed_lease *items;
    size_t count, cap;
} fedserver_lease_list;

void fedserver_lease_list_free(fedserver_lease_list *list);

/** Make room for one more lease. FED_ENOMEM: nothing has changed. */
fed_status fedserver_lease_list_reserve(fedserver_lease_list *list) FED_CHECKED;

/** Add the device's lease. fedserver_lease_list_reserve was called before. */
void fedserver_lease_list_add(fedserver_lease_list *list, fedserver_device *device);

#endif
