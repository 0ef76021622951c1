/* The client library's flash platform on a file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "flash_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "fed/file.h"

enum { BLOCK = 16384, BLOCKS = 32, SIZE = BLOCK * BLOCKS };

/** The file holds the complement of each byte, so that its holes read as erased flash (0xff). */
typedef struct flash_file {
    fedclient_platform store;
    int fd; /* holds the lock */
} flash_file;

static void complement(uint8_t *byte, size_t len) {
    for (size_t k = 0; k < len; k++) {
        byte[k] = (uint8_t)~byte[k];
    }
}

static fed_status file_read(void *user, uint32_t address, void *dst, size_t len) {
    const flash_file *file = user;
    FED_REQUIRE(pread(file->fd, dst, len, (off_t)address) == (ssize_t)len, FED_EIO);
    complement(dst, len);
    return FED_OK;
}

static fed_status write_complement(const flash_file *file, uint32_t address, const void *src,
                                   size_t len) {
    uint8_t byte[FEDCLIENT_FLASH_PAGE];
    memcpy(byte, src, len);
    complement(byte, len);
    FED_REQUIRE(pwrite(file->fd, byte, len, (off_t)address) == (ssize_t)len, FED_EIO);
    return fdatasync(file->fd) == 0 ? FED_OK : FED_EIO;
}

static fed_status file_program(void *user, uint32_t address, const void *src, size_t len) {
    return write_complement(user, address, src, len);
}

static fed_status file_erase(void *user, uint32_t address) {
    static const uint8_t zeros[BLOCK];
    const flash_file *file = user;
    FED_REQUIRE(pwrite(file->fd, zeros, BLOCK, (off_t)address) == BLOCK, FED_EIO);
    return fdatasync(file->fd) == 0 ? FED_OK : FED_EIO;
}

static fed_status open_file(flash_file *file, const char *directory, fed_error *err) {
    char path[400];
    snprintf(path, sizeof path, "%s/flash", directory);
    file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file->fd < 0) {
        return fed_file_fail(err, "open", path);
    }
    if (flock(file->fd, LOCK_EX | LOCK_NB) != 0) {
        return fed_fail(err, FED_EBUSY, "the flash file in %s is locked by another platform",
                        directory);
    }
    const bool sized = lseek(file->fd, 0, SEEK_END) == SIZE || ftruncate(file->fd, SIZE) == 0;
    return sized ? FED_OK : fed_file_fail(err, "size", path);
}

static int64_t unix_ms(void *user) {
    const flash_file *file = user;
    return file->store.unix_ms(file->store.user);
}

static int64_t monotonic_ms(void *user) {
    const flash_file *file = user;
    return file->store.monotonic_ms(file->store.user);
}

static fed_status put(void *user, const char *key, const void *data, size_t len, fed_error *err) {
    const flash_file *file = user;
    return file->store.put(file->store.user, key, data, len, err);
}

static fed_status get(void *user, const char *key, uint8_t **data, size_t *len, fed_error *err) {
    const flash_file *file = user;
    return file->store.get(file->store.user, key, data, len, err);
}

static fed_status drop(void *user, const char *key, fed_error *err) {
    const flash_file *file = user;
    return file->store.drop(file->store.user, key, err);
}

fed_status flash_file_open(const char *directory, fedclient_platform *platform, fed_error *err) {
    flash_file *file = calloc(1, sizeof *file);
    FED_REQUIRE(file != NULL, FED_ENOMEM);
    file->fd = -1;
    fed_status status = fed_dir_make(directory, 0700, err);
    if (status == FED_OK) {
        status = open_file(file, directory, err);
    }
    if (status == FED_OK) {
        const fedclient_flash port = {.user = file,
                                      .block_bytes = BLOCK,
                                      .blocks = BLOCKS,
                                      .unit_bytes = 8,
                                      .read = file_read,
                                      .program = file_program,
                                      .erase = file_erase};
        status = fedclient_platform_flash_open(&port, &file->store, err);
    }
    *platform = (fedclient_platform){file, unix_ms, monotonic_ms, put, get, drop, NULL};
    if (status != FED_OK) {
        flash_file_close(platform);
    }
    return status;
}

void flash_file_close(fedclient_platform *platform) {
    flash_file *file = platform->user;
    if (file != NULL) {
        fedclient_platform_flash_close(&file->store);
        if (file->fd >= 0) {
            (void)close(file->fd);
        }
        free(file);
    }
    *platform = (fedclient_platform){0};
}
