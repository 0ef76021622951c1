/* A simulated NOR flash in memory, which can wear out and lose power. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NOR_FLASH_H
#define NOR_FLASH_H

#include <stdbool.h>

#include "fed/rng.h"
#include "fedclient/flash.h"

typedef struct nor_flash {
    fedclient_flash port;
    uint8_t *byte;       /* uint8[blocks * block_bytes] */
    uint8_t *programmed; /* 1: must be erased before it is programmed */
    uint32_t *erased;    /* uint32[blocks]: number of erases */
    uint64_t calls;      /* program and erase calls since power on */
    uint64_t cut_at;     /* number of the call during which power fails; 0: none */
    uint64_t fail_at;    /* number of the call that fails; 0: none */
    bool dead;
    bool stuck; /* worn out: programming has no effect and reports success */
    fed_rng rng;
} nor_flash;

/** Make an erased flash. The struct must not be moved. Free it with nor_flash_free. */
void nor_flash_new(nor_flash *nor, uint32_t blocks, uint32_t block_bytes, uint32_t unit_bytes);
void nor_flash_free(nor_flash *nor);

/** Turn the power on again. cut_at: number of the call during which it fails; 0: none. */
void nor_flash_power(nor_flash *nor, uint64_t cut_at);

#endif
