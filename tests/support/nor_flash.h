/* A NOR flash in memory that keeps its users to the rules, wears, and loses its power. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NOR_FLASH_H
#define NOR_FLASH_H

#include <stdbool.h>

#include "fed/rng.h"
#include "fedclient/flash.h"

typedef struct nor_flash {
    fedclient_flash port; /* what the store is opened on */
    uint8_t *byte;        /* uint8[blocks * block_bytes] */
    uint8_t *programmed;  /* uint8[units]: 1 since the last erase */
    uint32_t *erased;     /* uint32[blocks]: how often */
    uint64_t calls;       /* of program and erase, since the power came */
    uint64_t cut_at;      /* the call in which power fails; 0: never. It leaves torn bytes */
    uint64_t fail_at;     /* the call that fails, doing nothing; 0: none */
    bool dead;            /* power has failed: each call fails */
    bool stuck;           /* worn: programming changes nothing, and reports success */
    fed_rng rng;          /* of what is torn */
} nor_flash;

/** A flash fresh from the factory. It must not move, and is freed with nor_flash_free. */
void nor_flash_new(nor_flash *nor, uint32_t blocks, uint32_t block_bytes, uint32_t unit_bytes);
void nor_flash_free(nor_flash *nor);

/** Power comes back. */
void nor_flash_power(nor_flash *nor, uint64_t cut_at);

#endif
