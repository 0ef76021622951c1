/* The gangs of workers behind devices, as these told them last. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/gangs.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fed/utf8.h"

void fedserver_gangs_free(fedserver_gangs *gangs) {
    for (size_t k = 0; k < gangs->count; k++) {
        free(gangs->items[k]);
    }
    *gangs = (fedserver_gangs){0};
}

/* The device's gang, or a new one; NULL: there is no room for so many workers, or no memory. */
static fedserver_gang *place(fedserver_gangs *gangs, const uint8_t *fingerprint, uint32_t workers) {
    fedserver_gang *own = NULL;
    uint32_t others = 0;
    for (size_t k = 0; k < gangs->count; k++) {
        fedserver_gang *one = gangs->items[k];
        if (memcmp(one->fingerprint, fingerprint, FED_SHA256_SIZE) == 0) {
            own = one;
        } else {
            others += one->told.count;
        }
    }
    if (others + workers > FEDSERVER_GANG_WORKERS) {
        return NULL;
    }
    if (own == NULL && gangs->count < FEDSERVER_GANGS) {
        own = calloc(1, sizeof *own);
        if (own != NULL) {
            memcpy(own->fingerprint, fingerprint, FED_SHA256_SIZE);
            gangs->items[gangs->count++] = own;
        }
    }
    return own;
}

void fedserver_gangs_take(fedserver_gangs *gangs, const fedserver_device *device,
                          const fed_gang *told, int64_t now_ms) {
    fedserver_gang *own = place(gangs, device->fingerprint, told->count);
    gangs->reports++;
    if (own != NULL) {
        own->heard_ms = now_ms;
        own->told = *told;
        /* The texts come from outside. */
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

void fedserver_gangs_forget(fedserver_gangs *gangs, const fedserver_devices *devices,
                            int64_t now_ms) {
    size_t kept = 0;
    for (size_t k = 0; k < gangs->count; k++) {
        fedserver_gang *one = gangs->items[k];
        const fedserver_device *device = fedserver_devices_find(devices, one->fingerprint);
        const bool stays = device != NULL && device->revoked_ms == 0 &&
                           device->expires_ms > now_ms &&
                           now_ms - one->heard_ms < FEDSERVER_GANG_KEPT_MS;
        if (stays) {
            gangs->items[kept++] = one;
        } else {
            free(one);
        }
    }
    gangs->count = kept;
}
