/* The devices that have a lease of a task. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_LEASE_LIST_H
#define FEDSERVER_LEASE_LIST_H

#include "fedserver/identity/device_table.h"

/** A device with the lease that it had when it was listed. */
typedef struct fedserver_listed_lease {
    fedserver_device *device;
    uint64_t lease;
} fedserver_listed_lease;

/** Each lease of a task that stands is in its list, once. A lease that has ended may be in it, too:
 * it drops out when somebody looks. Zeros are an empty list. */
typedef struct fedserver_lease_list {
    fedserver_listed_lease *items;
    size_t count, cap;
} fedserver_lease_list;

void fedserver_lease_list_free(fedserver_lease_list *list);

/** Make room for one more. FED_ENOMEM: nothing has changed. */
fed_status fedserver_lease_list_reserve(fedserver_lease_list *list) FED_CHECKED;

/** Add the device's lease. There is room. */
void fedserver_lease_list_add(fedserver_lease_list *list, fedserver_device *device);

#endif
