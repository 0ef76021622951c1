/* A folder of compiled kernels, found by the hash of what they depend on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "common/gpu/module_cache.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/file.h"
#include "fed/hash.h"

/* A file has MAGIC bytes, the hash of the parts, the XXH3-64 of the content, and the content. */
enum { MAGIC = 8, HEAD = MAGIC + FED_SHA256_SIZE + 8, PATH = 4096, MOST = 1 << 28 };

static const char magic[MAGIC + 1] = "FEDGPU1\n";

/* Hash the hash of each part with the sum so far. So two different lists of parts never give the
 * same input. */
static void hash_parts(const char *const *parts, uint8_t hash[FED_SHA256_SIZE]) {
    uint8_t both[2 * FED_SHA256_SIZE] = {0};
    for (; *parts != NULL; parts++) {
        fed_sha256(*parts, strlen(*parts), both + FED_SHA256_SIZE);
        fed_sha256(both, sizeof both, both);
    }
    memcpy(hash, both, FED_SHA256_SIZE);
}

static fed_status path_of(const char *folder, const uint8_t hash[FED_SHA256_SIZE],
                          char path[PATH]) {
    char hex[FED_SHA256_HEX];
    fed_hex(hash, FED_SHA256_SIZE, hex);
    const int len = snprintf(path, PATH, "%s/%s.module", folder, hex);
    return len > 0 && len < PATH ? FED_OK : FED_ERANGE;
}

static bool is_whole(const uint8_t *file, size_t len, const uint8_t hash[FED_SHA256_SIZE]) {
    if (len <= HEAD) {
        return false;
    }
    const uint64_t digest = fed_digest_bytes(file + HEAD, len - HEAD);
    return memcmp(file, magic, MAGIC) == 0 && memcmp(file + MAGIC, hash, FED_SHA256_SIZE) == 0 &&
           memcmp(file + MAGIC + FED_SHA256_SIZE, &digest, sizeof digest) == 0;
}

fed_status fed_gpu_cache_read(const char *folder, const char *const *parts, uint8_t **bytes,
                              size_t *len) {
    uint8_t hash[FED_SHA256_SIZE], *file = NULL;
    char path[PATH];
    size_t size = 0;
    FED_REQUIRE(folder != NULL, FED_ENOTFOUND);
    hash_parts(parts, hash);
    if (path_of(folder, hash, path) != FED_OK ||
        fed_file_read(path, MOST, &file, &size, NULL) != FED_OK) {
        return FED_ENOTFOUND;
    }
    if (!is_whole(file, size, hash)) {
        free(file);
        return FED_ENOTFOUND;
    }
    memmove(file, file + HEAD, size - HEAD);
    *bytes = file;
    *len = size - HEAD;
    return FED_OK;
}

void fed_gpu_cache_write(const char *folder, const char *const *parts, const void *bytes,
                         size_t len) {
    uint8_t head[HEAD];
    char path[PATH];
    fed_file file;
    if (folder == NULL || len == 0 || len > MOST - HEAD ||
        fed_dir_make(folder, 0700, NULL) != FED_OK) {
        return;
    }
    memcpy(head, magic, MAGIC);
    hash_parts(parts, head + MAGIC);
    const uint64_t digest = fed_digest_bytes(bytes, len);
    memcpy(head + MAGIC + FED_SHA256_SIZE, &digest, sizeof digest);
    if (path_of(folder, head + MAGIC, path) != FED_OK ||
        fed_file_create(path, 0600, &file, NULL) != FED_OK) {
        return;
    }
    if (fed_file_put(&file, head, HEAD, NULL) != FED_OK ||
        fed_file_put(&file, bytes, len, NULL) != FED_OK) {
        fed_file_abandon(&file);
        return;
    }
    if (fed_file_commit(&file, NULL) != FED_OK) {
        return; /* the next start compiles again, no harm is done */
    }
}
