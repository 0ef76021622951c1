/* General lossless compressors, for comparison. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_H
#define PEERS_H

#include <stddef.h>
#include <stdint.h>

/** Debian's packages of compressors that this build lacks, with a blank before each. */
extern const char *const peers_missing;

void peers_print_head(void);

/** Compress src[len], and print a row. Speeds are ratios to memcpy of x, float32[n]. */
void peers_print_row(const char *input, const uint8_t *src, size_t len, const float *x, size_t n);

#endif
