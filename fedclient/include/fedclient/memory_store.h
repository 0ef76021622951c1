/* Additional functions of stores in this process's memory, beyond fedclient/platform.h. They are
 * for simulators and tests. A port to a device needs none of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_MEMORY_STORE_H
#define FEDCLIENT_MEMORY_STORE_H

#include "fed/api.h"
#include "fedclient/platform.h"

FED_API_BEGIN

/**
 * A store of values in memory can hand a value over in place, without a copy. It offers these
 * functions as platform->memory, beside put, get and drop. The library trusts such a store: it
 * writes and checks no checksums in the values. A store that outlives its process, or that can be
 * damaged, must leave platform->memory NULL. fedclient/platforms/memory/ is an example.
 */
struct fedclient_memory {
    /** Return memory for a value or for scratch, aligned as malloc's, with any content. NULL: out
     * of memory. */
    void *(*room)(void *user, size_t len);

    /** Free memory of `room` that was not handed over with "give". */
    void (*leave)(void *user, void *room);

    /** Store the first len bytes of memory that `room` returned, as put does. The memory belongs to
     * the store from then on; after a failure it still belongs to the caller. */
    fed_status (*give)(void *user, const char *key, void *room, size_t len, fed_error *err);

    /** Read a value without a copy: *data is the store's memory, valid until the next put, give or
     * drop of the same key. */
    fed_status (*lend)(void *user, const char *key, const uint8_t **data, size_t *len,
                       fed_error *err);

    /** Read a value as lend does, for a caller that changes its bytes. A change alters the stored
     * value at once. A store with this function must not fail in a put of a value that is no
     * longer than the stored one. NULL: the store has no such function. */
    fed_status (*edit)(void *user, const char *key, uint8_t **data, size_t *len, fed_error *err);

    /** If a device of this process has given a value for the same key whose first len bytes equal
     * head, store that value for this key, too. FED_ENOTFOUND: there is none. NULL: the store has
     * no such function. */
    fed_status (*adopt)(void *user, const char *key, const void *head, size_t len);
};

FED_API_END

#endif
