/* A NOR flash in memory for tests. It enforces the rules of NOR flash, wears out, and can lose
 * power. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NOR_FLASH_H
#define NOR_FLASH_H

#include <stdbool.h>

#include "fed/rng.h"
#include "fedclient/flash.h"

typedef struct nor_flash {
    fedclient_flash port;
    uint8_t *byte;       /* uint8[blocks * block_bytes] */
    uint8_t *programmed; /* uint8[units]; 1: programmed since the last erase */
    uint32_t *erased;    /* uint32[blocks]: how often each block was erased */
    uint64_t calls;      /* number of program and erase calls since power came */
    uint64_t cut_at;     /* the call during which power fails, leaving torn bytes; 0: none */
    uint64_t fail_at;    /* number of the call that fails without doing anything; 0: none */
    bool dead;           /* power has failed: each call fails */
    bool stuck;          /* worn out: programming reports success and does nothing */
    fed_rng rng;
} nor_flash;

/** Make an erased flash. Do not move the struct in memory. Free it with nor_flash_free. */
void nor_flash_new(nor_flash *nor, uint32_t blocks, uint32_t block_bytes, uint32_t unit_bytes);
void nor_flash_free(nor_flash *nor);

/** Turn the power on again. cut_at: the call during which it fails next. */
void nor_flash_power(nor_flash *nor, uint64_t cut_at);

#endif
