/* Stores that are nothing but this process's memory: what they can do beyond fedclient/platform.h.
 * For simulators and tests. A port to a device needs none of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_MEMORY_STORE_H
#define FEDCLIENT_MEMORY_STORE_H

#include "fed/api.h"
#include "fedclient/platform.h"

FED_API_BEGIN

/**
 * A store of values in memory can hand a value over in place, without a copy. It offers that as
 * platform->memory, beside put, get and drop. Such a store gives back exactly what it was given, so
 * the library writes and checks no guards in its values. A store that outlives its process, or that
 * can be damaged, must leave platform->memory NULL. fedclient/platforms/memory/ is an example.
 */
struct fedclient_memory {
    /** Memory for a value or for scratch, aligned as malloc's, content arbitrary. NULL: there is
     * none left. */
    void *(*room)(void *user, size_t len);

    /** Take back memory of `room` that was not given. */
    void (*leave)(void *user, void *room);

    /** As put, of the first len bytes of memory of `room`, which belongs to the store from then on.
     * After a failure it still belongs to the caller. */
    fed_status (*give)(void *user, const char *key, void *room, size_t len, fed_error *err);

    /** As get, but in place. The caller reads *data until the key's next put, give or drop. */
    fed_status (*lend)(void *user, const char *key, const uint8_t **data, size_t *len,
                       fed_error *err);

    /** As lend, but the caller may change the bytes: a change is stored at once and for good. A
     * store with this function must not fail in a put that is no longer than the stored value.
     * NULL: not offered. */
    fed_status (*edit)(void *user, const char *key, uint8_t **data, size_t *len, fed_error *err);

    /** Store for key a value that any device of this process has given for the same key, and that
     * begins with head[len]. FED_ENOTFOUND: there is none. NULL: not offered. */
    fed_status (*adopt)(void *user, const char *key, const void *head, size_t len);
};

FED_API_END

#endif
