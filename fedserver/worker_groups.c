/* Keeps the last report of each worker group that trains behind a device. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/worker_groups.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fed/utf8.h"

void fedserver_worker_groups_free(fedserver_worker_groups *groups) {
    for (size_t k = 0; k < groups->count; k++) {
        free(groups->items[k]);
    }
    *groups = (fedserver_worker_groups){0};
}

static fedserver_worker_group *place(fedserver_worker_groups *groups, const uint8_t *fingerprint,
                                     uint32_t workers) {
    fedserver_worker_group *own = NULL;
    uint32_t others = 0;
    for (size_t k = 0; k < groups->count; k++) {
        fedserver_worker_group *one = groups->items[k];
        if (memcmp(one->fingerprint, fingerprint, FED_SHA256_SIZE) == 0) {
            own = one;
        } else {
            others += one->told.count;
        }
    }
    if (others + workers > FEDSERVER_WORKER_GROUP_WORKERS) {
        return NULL;
    }
    if (own == NULL && groups->count < FEDSERVER_WORKER_GROUPS) {
        own = calloc(1, sizeof *own);
        if (own != NULL) {
            memcpy(own->fingerprint, fingerprint, FED_SHA256_SIZE);
            groups->items[groups->count++] = own;
        }
    }
    return own;
}

void fedserver_worker_groups_take(fedserver_worker_groups *groups, const fedserver_device *device,
                                  const fed_worker_group *told, int64_t now_ms) {
    fedserver_worker_group *own = place(groups, device->fingerprint, told->count);
    groups->reports++;
    if (own != NULL) {
        own->heard_ms = now_ms;
        own->told = *told;
        /* The texts come from the network, and may hold anything. */
        fed_utf8_clean(own->told.link);
        fed_utf8_clean(own->told.collective);
        fed_utf8_clean(own->told.sync);
        fed_utf8_clean(own->told.codec);
        fed_utf8_clean(own->told.pull);
        fed_utf8_clean(own->told.verdict);
        for (uint32_t k = 0; k < own->told.count; k++) {
            fed_utf8_clean(own->told.worker[k].phase);
            fed_utf8_clean(own->told.worker[k].host);
            fed_utf8_clean(own->told.worker[k].computes_on);
        }
    }
}

void fedserver_worker_groups_forget(fedserver_worker_groups *groups,
                                    const fedserver_devices *devices, int64_t now_ms) {
    size_t kept = 0;
    for (size_t k = 0; k < groups->count; k++) {
        fedserver_worker_group *one = groups->items[k];
        const fedserver_device *device = fedserver_devices_find(devices, one->fingerprint);
        const bool stays = device != NULL && device->revoked_ms == 0 &&
                           device->expires_ms > now_ms &&
                           now_ms - one->heard_ms < FEDSERVER_WORKER_GROUP_KEPT_MS;
        if (stays) {
            groups->items[kept++] = one;
        } else {
            free(one);
        }
    }
    groups->count = kept;
}
