/* The payload of a compressed segment: written from a segment's bytes, and read back. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_FORM_H
#define FEDNIC_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The format is in docs/nic-format.md. `lead` is the number of first bytes that belong to a float
 * which began in an earlier segment. */

/** The most bytes of payload of a segment that can be compressed. */
enum { FEDNIC_PLAIN_MOST = 65535 };

/** Return how many of the len bytes at position `at` of a stream of floats belong to an earlier
 * float. */
size_t fednic_form_lead(uint32_t at, size_t len);

/** Compress plain[len], or as many of its first bytes as fit, into at most `limit` bytes at dst.
 * Returns the number of bytes written, 0 if nothing fits. *taken: the number of bytes of plain
 * that were compressed. */
size_t fednic_form_write(int e, const uint8_t *plain, size_t len, size_t lead, size_t limit,
                         uint8_t *dst, size_t *taken);

/** Restore a compressed payload into plain, which must have room for FEDNIC_PLAIN_MOST bytes.
 * Returns the number of bytes restored; 0: src is not of the format, and plain has arbitrary
 * bytes. */
size_t fednic_form_read(const uint8_t *src, size_t len, uint8_t *plain);

/** Copy len bytes to dst, and round their whole floats as a compressed segment would. `floats` is
 * scratch memory for len / 4 floats. Returns false if no byte has changed. */
bool fednic_form_round(int e, const uint8_t *plain, size_t len, size_t lead, float *floats,
                       uint8_t *dst);

#endif
