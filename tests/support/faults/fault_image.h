/* Simulates what a power cut leaves on the disk. Calls must come from one thread at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_FAULT_IMAGE_H
#define FED_FAULT_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

/** Begin with the files that exist. All of them count as synced. */
void fault_image_open(const char *directory);

/** Record an open file, which may be new. */
void fault_image_meet(int fd);

/** Record an fsync of a file or of a directory. */
void fault_image_sync(int fd, const char *path);

/**
 * Change the directory to what a power cut leaves.
 *
 * torn  false: nothing that was not synced is left; true: each sector of FAULT_SECTOR bytes, each
 *       size and each directory's names are the old ones or the new ones, by the seed
 */
void fault_image_restore(bool torn, uint64_t seed);

#endif
