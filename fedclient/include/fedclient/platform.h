/* What a port provides: clock, entropy, and durable storage of a few named values. */
#ifndef FEDCLIENT_PLATFORM_H
#define FEDCLIENT_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/**
 * What a store can do beside that is nothing but this process's memory: hand values over where they
 * lie. It gives back just what it was given, so the library neither makes nor checks the guards of
 * what it keeps there. None of this is for a store that outlives its process or can be damaged.
 */
typedef struct fedclient_memory {
    /** Memory for a value or for scratch, content arbitrary, aligned as malloc's; NULL: none. */
    void *(*room)(void *user, size_t len);
    /** Take back a room that was not given. */
    void (*leave)(void *user, void *room);
    /** As put, of the first len bytes of a room, which is the store's from then on, to keep or not.
     * On a failure it is still the caller's. */
    fed_status (*give)(void *user, const char *key, void *room, size_t len, fed_error *err);
    /** As get, but where it lies: to be read until the key's next put, give or drop. */
    fed_status (*lend)(void *user, const char *key, const uint8_t **data, size_t *len,
                       fed_error *err);
    /** Likewise, to be changed, at once and for good. Who offers this must not fail in a put that
     * is no longer than the value there is. NULL: not offered. */
    fed_status (*edit)(void *user, const char *key, uint8_t **data, size_t *len, fed_error *err);
    /** Take for key the value, of whichever device in this process, that was given for the same key
     * and begins with head[len]: FED_ENOTFOUND where there is none. NULL: not offered. */
    fed_status (*adopt)(void *user, const char *key, const void *head, size_t len);
} fedclient_memory;

/**
 * The ground a client stands on. Keys are short file-name-like words ("residual", "key.pem"). Every
 * call may block; none may call back into the library. One thread at a time per platform.
 */
typedef struct fedclient_platform {
    void *user;

    /** Wall time in Unix milliseconds; may jump. */
    int64_t (*unix_ms)(void *user);

    /** Time that only goes forward, in milliseconds from an arbitrary start. */
    int64_t (*monotonic_ms)(void *user);

    /**
     * Durably replace the value of key with data[len]: after FED_OK it survives power loss; a crash
     * at any instant leaves the old value or the new one, whole. This is the only durability that a
     * port has to promise.
     */
    fed_status (*put)(void *user, const char *key, const void *data, size_t len, fed_error *err);

    /** Read a value. FED_ENOTFOUND where there is none. Owner of *data: the caller, free(). */
    fed_status (*get)(void *user, const char *key, uint8_t **data, size_t *len, fed_error *err);

    /** Forget a value; one that is not there is fine. */
    fed_status (*drop)(void *user, const char *key, fed_error *err);

    const fedclient_memory *memory; /* NULL, unless that is all that the store is */
} fedclient_platform;

/** POSIX: one file a key under `directory` (made if missing, mode 0700), fed_file_replace for put.
 * Holds a lock on the directory until closed: FED_EBUSY if another process has it. */
fed_status fedclient_platform_posix_open(const char *directory, fedclient_platform *platform,
                                         fed_error *err) FED_CHECKED;
void fedclient_platform_posix_close(fedclient_platform *platform);

/** In memory, for simulations and tests: what a flash chip would hold. Lives as long as it is not
 * closed, across any number of clients opened on it. */
fed_status fedclient_platform_memory_open(fedclient_platform *platform, fed_error *err) FED_CHECKED;
void fedclient_platform_memory_close(fedclient_platform *platform);

#endif
