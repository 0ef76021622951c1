/* What a port provides: clock, entropy, and durable storage of a few named values. */
#ifndef FEDCLIENT_PLATFORM_H
#define FEDCLIENT_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

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
