/* A port provides two clocks, and durable storage of a few named values. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_PLATFORM_H
#define FEDCLIENT_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/*
 * On POSIX there is nothing to write:
 *
 *     fedclient_platform platform;
 *     fedclient_platform_posix_open("/var/lib/my-device", &platform, &err);
 *     options.platform = &platform;
 *     ...
 *     fedclient_platform_posix_close(&platform);
 *
 * On a board with NOR flash, fedclient/flash.h makes a platform from three functions of the port.
 * Elsewhere fill in a fedclient_platform with five functions. Keys are short words that can be file
 * names ("residual", "model1"). Each call may block; none may call back into the library. The
 * library calls a platform from one thread at a time.
 */

typedef struct fedclient_memory fedclient_memory;

typedef struct fedclient_platform {
    void *user; /* the first argument of each function */

    /** Wall time in Unix milliseconds. It may jump. */
    int64_t (*unix_ms)(void *user);

    /** Milliseconds from an arbitrary start. This time never goes back. */
    int64_t (*monotonic_ms)(void *user);

    /**
     * Durably replace the value of key with data[len]. After FED_OK the value survives power loss.
     * A crash at any instant leaves the old value or the new one, whole. A port has to promise no
     * other durability.
     */
    fed_status (*put)(void *user, const char *key, const void *data, size_t len, fed_error *err);

    /** Read a value. *data belongs to the caller, who frees it with free(). FED_ENOTFOUND: the key
     * has no value. */
    fed_status (*get)(void *user, const char *key, uint8_t **data, size_t *len, fed_error *err);

    /** Delete a value. FED_OK too if the key has none. */
    fed_status (*drop)(void *user, const char *key, fed_error *err);

    /* NULL, except for stores of simulators and tests (fedclient/memory_store.h). */
    const fedclient_memory *memory;
} fedclient_platform;

/** POSIX: one file for each key under `directory`, which is made if missing, mode 0700. put is
 * fed_file_replace. Holds a lock on the directory until closed. FED_EBUSY: it is locked
 * already. */
fed_status fedclient_platform_posix_open(const char *directory, fedclient_platform *platform,
                                         fed_error *err) FED_CHECKED;
void fedclient_platform_posix_close(fedclient_platform *platform);

/** Open a platform in this process's memory, for simulations and tests. It keeps its values until
 * it is closed; any number of clients may be opened on it, one after the other. */
fed_status fedclient_platform_memory_open(fedclient_platform *platform, fed_error *err) FED_CHECKED;
void fedclient_platform_memory_close(fedclient_platform *platform);

FED_API_END

#endif
