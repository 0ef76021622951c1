/* The flash platform: the five functions of a platform, on a log in a NOR flash. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fedclient/platforms/flash/flash_log.h"

static int64_t flash_unix_ms(void *user) {
    (void)user;
    return fed_clock_unix_ms();
}

static int64_t flash_monotonic_ms(void *user) {
    (void)user;
    return fed_clock_monotonic_ms();
}

static fed_status check_key(const char *key, fed_error *err) {
    if (key[0] == '\0' || strlen(key) > FEDCLIENT_FLASH_KEY) {
        return fed_fail(
            err, FED_EINVAL,
            "\"%.60s\" can't be the name of a stored value in the flash: it is empty or too long",
            key);
    }
    return FED_OK;
}

/** The bytes that must stay free, so that all values can be copied even if power fails repeatedly:
 * the largest record, and blocks, since a failure wastes the rest of a block. */
static uint64_t reserve(const flash_log *log, uint32_t size) {
    uint64_t largest = size;
    for (size_t k = 0; k < log->count; k++) {
        const uint32_t own = flash_log_size(log, log->value[k].len);
        largest = own > largest ? own : largest;
    }
    return largest + (log->count + 2) * (uint64_t)flash_log_payload(log);
}

/** Would a record fit if all values were moved together? */
static bool can_fit(const flash_log *log, uint32_t size) {
    uint64_t taken = size + reserve(log, size) + flash_log_payload(log);
    for (size_t k = 0; k < log->count; k++) {
        taken += flash_log_size(log, log->value[k].len);
    }
    return taken <= (uint64_t)log->flash.blocks * flash_log_payload(log);
}

/** Make room for a record by copying old values to the head. After two copies of each value, more
 * copies would give no more room. */
static fed_status make_room(flash_log *log, uint32_t size) {
    const size_t most = 2 * log->count + 2;
    for (size_t k = 0; k < most && flash_log_room(log) < size + reserve(log, size); k++) {
        FED_TRY(flash_log_clean(log));
    }
    return flash_log_room(log) >= size ? FED_OK : FED_ENOSPC;
}

static fed_status no_room(const flash_log *log, const char *key, size_t len, fed_error *err) {
    return fed_fail(err, FED_ENOSPC,
                    "the flash has no room for \"%s\" (%zu bytes) beside what it holds: give the "
                    "store more than %u blocks of %u bytes",
                    key, len, (unsigned)log->flash.blocks, (unsigned)log->flash.block_bytes);
}

static fed_status flash_put(void *user, const char *key, const void *data, size_t len,
                            fed_error *err) {
    flash_log *log = user;
    FED_TRY(check_key(key, err));
    if (len >= UINT32_MAX / 2 || !can_fit(log, flash_log_size(log, len))) {
        return no_room(log, key, len, err);
    }
    if (flash_log_find(log, key) == NULL && log->count == FEDCLIENT_FLASH_KEYS) {
        return fed_fail(
            err, FED_ENOSPC,
            "the flash can't store \"%s\": it already has %d values, the most it can hold", key,
            FEDCLIENT_FLASH_KEYS);
    }
    fed_status status = make_room(log, flash_log_size(log, len));
    if (status == FED_OK) {
        status = flash_log_append(log, FLASH_PUT, key, data, len);
    }
    if (status == FED_ENOSPC) {
        return no_room(log, key, len, err);
    }
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status, "the flash can't store \"%s\" (%zu bytes): is it worn?", key,
                          len);
}

static fed_status flash_get(void *user, const char *key, uint8_t **data, size_t *len,
                            fed_error *err) {
    flash_log *log = user;
    const flash_value *value = flash_log_find(log, key);
    if (value == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "nothing is stored as \"%s\"", key);
    }
    uint8_t *copy = malloc((size_t)value->len + 1);
    if (copy == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory while reading \"%s\" (%u bytes)", key,
                        (unsigned)value->len);
    }
    const fed_status status = flash_log_read(log, value, copy);
    if (status != FED_OK) {
        free(copy);
        return fed_fail(err, status, "the flash has lost \"%s\": its bytes are damaged", key);
    }
    *data = copy;
    *len = value->len;
    return FED_OK;
}

static fed_status flash_drop(void *user, const char *key, fed_error *err) {
    flash_log *log = user;
    FED_TRY(check_key(key, err));
    if (flash_log_find(log, key) == NULL) {
        return FED_OK;
    }
    fed_status status = make_room(log, flash_log_size(log, 0));
    if (status == FED_OK) {
        status = flash_log_append(log, FLASH_DROP, key, NULL, 0);
    }
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status, "the flash can't drop \"%s\": is it worn?", key);
}

static bool is_usable(const fedclient_flash *flash) {
    const uint32_t unit = flash->unit_bytes;
    return flash->block_bytes >= 512 && flash->block_bytes % FEDCLIENT_FLASH_PAGE == 0 &&
           flash->blocks >= 4 && flash->blocks <= UINT32_MAX / 2 / flash->block_bytes &&
           unit >= 1 && unit <= FEDCLIENT_FLASH_UNIT && (unit & (unit - 1)) == 0;
}

fed_status fedclient_platform_flash_open(const fedclient_flash *flash, fedclient_platform *platform,
                                         fed_error *err) {
    if (!is_usable(flash)) {
        return fed_fail(err, FED_EINVAL,
                        "a flash of %u blocks of %u bytes, programmed %u at a time, can't hold a "
                        "store: fedclient/flash.h says what can",
                        (unsigned)flash->blocks, (unsigned)flash->block_bytes,
                        (unsigned)flash->unit_bytes);
    }
    flash_log *log = calloc(1, sizeof *log);
    if (log == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a client's store in flash");
    }
    log->flash = *flash;
    const fed_status status = flash_log_mount(log);
    if (status != FED_OK) {
        free(log);
        return fed_fail(
            err, status,
            "the flash can't be read, or holds other data than a client's store: erase it");
    }
    *platform = (fedclient_platform){.user = log,
                                     .unix_ms = flash_unix_ms,
                                     .monotonic_ms = flash_monotonic_ms,
                                     .put = flash_put,
                                     .get = flash_get,
                                     .drop = flash_drop};
    return FED_OK;
}

void fedclient_platform_flash_close(fedclient_platform *platform) {
    free(platform->user);
    *platform = (fedclient_platform){0};
}
