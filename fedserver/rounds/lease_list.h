/* The list of devices that have a lease of one task. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_LEASE_LIST_H
#define FEDSERVER_LEASE_LIST_H

#include "fedserver/identity/device_table.h"

/** A device, and the lease that it had when it was added to the list. */
typedef struct fedserver_listed_lease {
    fedserver_device *device;
    uint64_t lease;
} fedserver_listed_lease;

/** The leases of one task. Ended leases may stay in the list for a while. An empty list is all
 * zeros. */
typedef struct fedserver_lease_list {
    fedserver_listed_lease *items;
    size_t count, cap;
} fedserver_lease_list;

void fedserver_lease_list_free(fedserver_lease_list *list);

/** Make room for one more lease. FED_ENOMEM: nothing has changed. */
fed_status fedserver_lease_list_reserve(fedserver_lease_list *list) FED_CHECKED;

/** Add the device's lease. Call fedserver_lease_list_reserve first. */
void fedserver_lease_list_add(fedserver_lease_list *list, fedserver_device *device);

#endif
