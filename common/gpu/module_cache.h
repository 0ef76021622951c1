/* Compiled kernels in a folder, by hash. For devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_GPU_MODULE_CACHE_H
#define FED_GPU_MODULE_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/status.h"

/*
 * A file is named by the SHA-256 of all that the bytes depend on: the texts, the compiler's
 * options, the card, the driver's version. `parts` are these strings; the last is NULL. A file that
 * is torn, or was not written by fed_gpu_cache_write, counts as none. Who can write to the folder
 * decides what the device runs.
 */

/** FED_ENOTFOUND: none, or folder is NULL; compile. The caller frees *bytes. */
fed_status fed_gpu_cache_read(const char *folder, const char *const *parts, uint8_t **bytes,
                              size_t *len) FED_CHECKED;

/** Replaces the file at once, or leaves it: a full disk costs time at the next start, no more. A
 * missing folder is made. */
void fed_gpu_cache_write(const char *folder, const char *const *parts, const void *bytes,
                         size_t len);

#endif
