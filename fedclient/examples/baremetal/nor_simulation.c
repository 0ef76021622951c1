/* A NOR flash, simulated in a file of the host. Its content outlives the emulator, as a flash's
 * outlives a power cut. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fedclient/examples/baremetal/board.h"
#include "fedclient/examples/baremetal/semihosting.h"

enum {
    BLOCK = 4096,
    UNIT = 8,
    PIECE = 16, /* bytes of one write, so that killing the emulator can interrupt nor_program */
    PIECE_ERASED = 256, /* bytes of one write of an erase */
    POWER_CUT = 42      /* exit status of the emulator after a simulated power cut */
};

typedef struct nor {
    int file;
    uint32_t programs, erases;
    uint32_t cut_program, cut_erase; /* the numbers of the calls in which power fails; 0: none */
} nor;

static fed_status nor_read(void *user, uint32_t address, void *dst, size_t len) {
    const nor *flash = user;
    return semihosting_read(flash->file, address, dst, len) ? FED_OK : FED_EIO;
}

/** As in a real NOR flash, programming only clears bits. */
static fed_status nor_program(void *user, uint32_t address, const void *src, size_t len) {
    nor *flash = user;
    const bool cut = ++flash->programs == flash->cut_program;
    for (size_t at = 0; at < len; at += PIECE) {
        uint8_t piece[PIECE];
        const size_t n = len - at < PIECE ? len - at : PIECE;
        FED_REQUIRE(semihosting_read(flash->file, address + at, piece, n), FED_EIO);
        for (size_t k = 0; k < n; k++) {
            piece[k] &= ((const uint8_t *)src)[at + k];
        }
        if (cut && at + PIECE >= len / 2) {
            (void)semihosting_write(flash->file, address + at, piece, n / 2);
            semihosting_exit(POWER_CUT);
        }
        FED_REQUIRE(semihosting_write(flash->file, address + at, piece, n), FED_EIO);
    }
    return FED_OK;
}

static fed_status nor_erase(void *user, uint32_t address) {
    nor *flash = user;
    uint8_t ones[PIECE_ERASED];
    const bool cut = ++flash->erases == flash->cut_erase;
    memset(ones, 0xFF, sizeof ones);
    for (uint32_t at = 0; at < BLOCK; at += PIECE_ERASED) {
        if (cut && at >= BLOCK / 2) {
            semihosting_exit(POWER_CUT);
        }
        FED_REQUIRE(semihosting_write(flash->file, address + at, ones, sizeof ones), FED_EIO);
    }
    return FED_OK;
}

static uint32_t number_after(const char *cut, const char *word) {
    const size_t len = strlen(word);
    return cut != NULL && strncmp(cut, word, len) == 0 ? (uint32_t)strtoul(cut + len, NULL, 10) : 0;
}

bool board_flash_open(const char *path, const char *cut, fedclient_flash *flash) {
    static nor only;
    only.file = semihosting_open(path, SEMIHOSTING_UPDATE);
    only.cut_program = number_after(cut, "program:");
    only.cut_erase = number_after(cut, "erase:");
    if (only.file < 0) {
        return false;
    }
    *flash = (fedclient_flash){.user = &only,
                               .block_bytes = BLOCK,
                               .blocks = semihosting_length(only.file) / BLOCK,
                               .unit_bytes = UNIT,
                               .read = nor_read,
                               .program = nor_program,
                               .erase = nor_erase};
    return true;
}
