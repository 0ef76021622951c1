/* A growing list of devices with a lease. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/lease_list.h"

#include <assert.h>
#include <stdlib.h>

void fedserver_lease_list_free(fedserver_lease_list *list) {
    free(list->items);
    *list = (fedserver_lease_list){0};
}

fed_status fedserver_lease_list_reserve(fedserver_lease_list *list) {
    if (list->count < list->cap) {
        return FED_OK;
    }
    const size_t cap = list->cap == 0 ? 16 : 2 * list->cap;
    fedserver_listed_lease *items = realloc(list->items, cap * sizeof *items);
    FED_REQUIRE(items != NULL, FED_ENOMEM);
    list->items = items;
    list->cap = cap;
    return FED_OK;
}

void fedserver_lease_list_add(fedserver_lease_list *list, fedserver_device *device) {
    assert(list->count < list->cap);
    /* S3 in docs/durability.md: the lease's update was not counted yet. */
    assert(device->lease != 0 && device->lease != device->counted_lease);
    list->items[list->count++] = (fedserver_listed_lease){device, device->lease};
}
