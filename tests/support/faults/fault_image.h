/* The image of a directory after a power cut: each file as it was last synced, under synced names.
 * Only one thread at a time may call it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_FAULT_IMAGE_H
#define FED_FAULT_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

/** Begin with the files that exist. All of them count as synced. */
void fault_image_open(const char *directory);

/** Note a descriptor of a file that may be new. */
void fault_image_meet(int fd);

/** Note an fsync: of a file's bytes, or of a directory's names. */
void fault_image_sync(int fd, const char *path);

/**
 * Make the directory what the power cut leaves.
 *
 * torn  else nothing that was not synced is left; here each sector of FAULT_SECTOR bytes, each size
 *       and each directory's names are the old ones or the new ones, as the seed says.
 */
void fault_image_restore(bool torn, uint64_t seed);

#endif
