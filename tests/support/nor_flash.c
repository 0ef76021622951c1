/* A simulated NOR flash in memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nor_flash.h"

#include "fed_test.h"

static uint32_t size_of(const nor_flash *nor) {
    return nor->port.blocks * nor->port.block_bytes;
}

static fed_status nor_read(void *user, uint32_t address, void *dst, size_t len) {
    const nor_flash *nor = user;
    assert_true(address + len <= size_of(nor));
    memcpy(dst, nor->byte + address, len);
    return nor->dead ? FED_EIO : FED_OK;
}

/** Count a call. FED_EIO: the call must fail without any effect. */
static fed_status begin_call(nor_flash *nor) {
    nor->calls++;
    FED_REQUIRE(!nor->dead && nor->calls != nor->fail_at, FED_EIO);
    nor->dead = nor->calls == nor->cut_at;
    return FED_OK;
}

/** Return a byte after power failed during its change from `was` to `wanted`: any changing bit may
 * have changed. */
static uint8_t torn(nor_flash *nor, uint8_t was, uint8_t wanted) {
    const uint32_t draw = fed_rng_u32(&nor->rng);
    const uint8_t changed = (uint8_t)(was ^ wanted);
    switch (draw >> 30) {
    case 0:
        return was;
    case 1:
        return (uint8_t)(was ^ (changed & draw));
    default:
        return wanted;
    }
}

static void set_byte(nor_flash *nor, uint32_t at, uint8_t wanted) {
    nor->byte[at] = nor->dead ? torn(nor, nor->byte[at], wanted) : wanted;
}

static fed_status nor_program(void *user, uint32_t address, const void *src, size_t len) {
    nor_flash *nor = user;
    const uint32_t unit = nor->port.unit_bytes;
    const uint8_t *from = src;
    assert_true(len > 0 && address + len <= size_of(nor));
    assert_true(address % unit == 0 && len % unit == 0);
    assert_true(address % FEDCLIENT_FLASH_PAGE + len <= FEDCLIENT_FLASH_PAGE);
    FED_TRY(begin_call(nor));
    for (uint32_t k = 0; k < len / unit; k++) {
        assert_false(nor->programmed[address / unit + k]);
        nor->programmed[address / unit + k] = 1;
    }
    /* After a power failure, bytes may have been written in any order. */
    for (uint32_t k = 0; k < len && !nor->stuck; k++) {
        set_byte(nor, address + k, nor->byte[address + k] & from[k]);
    }
    return nor->dead ? FED_EIO : FED_OK;
}

static fed_status nor_erase(void *user, uint32_t address) {
    nor_flash *nor = user;
    const uint32_t bytes = nor->port.block_bytes, unit = nor->port.unit_bytes;
    assert_true(address % bytes == 0 && address < size_of(nor));
    FED_TRY(begin_call(nor));
    for (uint32_t k = 0; k < bytes; k++) {
        set_byte(nor, address + k, 0xFF);
    }
    nor->erased[address / bytes]++;
    /* After a power failure, the block must be erased again before it is programmed. */
    memset(nor->programmed + address / unit, nor->dead, bytes / unit);
    return nor->dead ? FED_EIO : FED_OK;
}

void nor_flash_new(nor_flash *nor, uint32_t blocks, uint32_t block_bytes, uint32_t unit_bytes) {
    *nor = (nor_flash){.port = {.user = nor,
                                .block_bytes = block_bytes,
                                .blocks = blocks,
                                .unit_bytes = unit_bytes,
                                .read = nor_read,
                                .program = nor_program,
                                .erase = nor_erase}};
    nor->byte = malloc(size_of(nor));
    nor->programmed = calloc(size_of(nor) / unit_bytes, 1);
    nor->erased = calloc(blocks, sizeof *nor->erased);
    assert_true(nor->byte != NULL && nor->programmed != NULL && nor->erased != NULL);
    memset(nor->byte, 0xFF, size_of(nor));
    fed_rng_init(&nor->rng, 1, blocks, unit_bytes);
}

void nor_flash_free(nor_flash *nor) {
    free(nor->byte);
    free(nor->programmed);
    free(nor->erased);
}

void nor_flash_power(nor_flash *nor, uint64_t cut_at) {
    nor->dead = false;
    nor->calls = 0;
    nor->cut_at = cut_at;
}
