/* Additional functions of stores in this process's memory, beyond fedclient/platform.h. They are
 * for simulators and tests. A port to a device needs none of them. */
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
    /** Return memory for a value or for scratch, aligned as malloc's, with any content. NULL: out
     * of memory. */
    void *(*room)(void *user, size_t len);

    /** Free memory of `room` that was not handed over with "give". */
    void (*leave)(void *user, void *room);

    /** As put, with the first len bytes of memory that `room` returned. The memory belongs to the
     * store from then on; after a failure it still belongs to the caller. */
    fed_status (*give)(void *user, const char *key, void *room, size_t len, fed_error *err);

    /** As get, but without a copy: *data is the store's memory, valid until the key's next put,
     * give or drop. */
    fed_status (*lend)(void *user, const char *key, const uint8_t **data, size_t *len,
                       fed_error *err);

    /** As lend, but the caller may change the bytes, which changes the stored value at once. A
     * store with this function must not fail in a put that is no longer than the stored value.
     * NULL: the store has no such function. */
    fed_status (*edit)(void *user, const char *key, uint8_t **data, size_t *len, fed_error *err);

    /** If any device of this process has given a value for the same key that begins with head[len],
     * store that value for key here, too. FED_ENOTFOUND: there is none. NULL: the store has no such
     * function. */
    fed_status (*adopt)(void *user, const char *key, const void *head, size_t len);
};

FED_API_END

#endif
