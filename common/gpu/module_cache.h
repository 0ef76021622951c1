/* Internal to the devices: a folder of compiled kernels, by the hash of what they depend on. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_GPU_MODULE_CACHE_H
#define FED_GPU_MODULE_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/status.h"

/*
 * A file is named by the SHA-256 of all strings that its content depends on: the sources, the
 * compiler's options, the card, the driver's version. The argument parts lists these strings; the
 * last one is NULL. A damaged file is treated as missing. Whoever can write to the folder decides
 * what the device runs.
 */

/** Read compiled kernels. FED_ENOTFOUND: none, or folder is NULL. The caller frees *bytes. */
fed_status fed_gpu_cache_read(const char *folder, const char *const *parts, uint8_t **bytes,
                              size_t *len) FED_CHECKED;

/** Store compiled kernels. The file is replaced at once, or left unchanged; a failure only costs
 * time at the next start. A missing folder is made. */
void fed_gpu_cache_write(const char *folder, const char *const *parts, const void *bytes,
                         size_t len);

#endif
