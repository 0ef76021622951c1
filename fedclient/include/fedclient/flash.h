/* A platform for devices without files: its store is a log in a NOR flash. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_FLASH_H
#define FEDCLIENT_FLASH_H

#include "fed/api.h"
#include "fedclient/platform.h"

FED_API_BEGIN

enum {
    FEDCLIENT_FLASH_PAGE = 256, /* one call of `program` stays within a page of this size */
    FEDCLIENT_FLASH_UNIT = 64,  /* the largest unit_bytes */
    /* how many keys may have a value at a time: enough for 4 slots, and pieces of a download */
    FEDCLIENT_FLASH_KEYS = 16,
    FEDCLIENT_FLASH_KEY = 43 /* most bytes of a key */
};

/**
 * A port gives the store part of a NOR flash, and three functions. Addresses begin with 0. The
 * store programs each unit only once after an erase, as flash with ECC demands. It erases each
 * block just before it writes there, so the leftovers of an interrupted erase do no harm.
 */
typedef struct fedclient_flash {
    void *user;           /* the first argument of each function */
    uint32_t block_bytes; /* bytes erased at a time: a multiple of 256, at least 512 */
    uint32_t blocks;      /* number of blocks: at least 4 */
    uint32_t unit_bytes;  /* program takes multiples of this: a power of two, up to 64 */

    /** Copy len bytes from the flash to dst. */
    fed_status (*read)(void *user, uint32_t address, void *dst, size_t len);
    /** Write len bytes to erased flash. address and len are multiples of the unit. Return when the
     * bytes survive power loss. */
    fed_status (*program)(void *user, uint32_t address, const void *src, size_t len);
    /** Set the block that begins at address to ones. */
    fed_status (*erase)(void *user, uint32_t address);
} fedclient_flash;

/**
 * Open the platform on a flash. The platform's clocks are those of fed/clock.h. A flash without
 * values, such as a new one, opens as an empty store. Opening reads all records in the flash.
 *
 * Power loss   at any instant, also within program or erase, leaves the old value or the new one
 * Wear         blocks are erased in turn, so all wear alike
 * Room         a put needs free room for the new value beside all stored values, the key's old one
 *              included. Reserved are the size of the largest value, three blocks, and a block for
 *              each value. FED_ENOSPC: there is less room
 * Memory       about 1.3 KB; the memory of a value that "get" returns is the caller's
 * Errors       FED_EINVAL a size in *flash is not allowed; FED_ENOMEM; those of `read`; FED_EFORMAT
 *              there are more than FEDCLIENT_FLASH_KEYS values
 */
fed_status fedclient_platform_flash_open(const fedclient_flash *flash, fedclient_platform *platform,
                                         fed_error *err) FED_CHECKED;
void fedclient_platform_flash_close(fedclient_platform *platform);

FED_API_END

#endif
