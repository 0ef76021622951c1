/* For every fuzz target: the entry function, and a check that aborts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fed/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static inline void require(bool holds) {
    if (!holds) {
        abort();
    }
}

/** The written bytes must equal the bytes that were read. */
static inline void require_same(const fed_writer *written, const uint8_t *data, size_t len) {
    require(written->status == FED_OK && written->len == len);
    require(len == 0 || memcmp(written->data, data, len) == 0);
}

/** Allocate memory of exactly this size, so that sanitizers find accesses past its end. The caller
 * frees it. */
static inline void *fuzz_allocate(size_t bytes) {
    void *memory = malloc(bytes + (bytes == 0));
    require(memory != NULL);
    return memory;
}

static inline void *fuzz_copy(const void *src, size_t bytes) {
    return memcpy(fuzz_allocate(bytes), src, bytes);
}

#endif
