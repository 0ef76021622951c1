/* The payload of a compressed segment: written from a segment's bytes, and read back. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_FORM_H
#define FEDNIC_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Format: docs/nic-format.md. `lead`: how many of the first bytes belong to a float that began
 * before them. */

/** Payload of a segment that can be compressed at all. */
enum { FEDNIC_PLAIN_MOST = 65535 };

/** Of len bytes from position `at` of a stream of floats: how many belong to an earlier float. */
size_t fednic_form_lead(uint32_t at, size_t len);

/** Write plain[len], or as many of its first bytes as fit, into at most `limit` bytes at dst.
 * Returns the bytes written; *taken: the bytes of plain that they stand for. 0: nothing fits. */
size_t fednic_form_write(int e, const uint8_t *plain, size_t len, size_t lead, size_t limit,
                         uint8_t *dst, size_t *taken);

/** Restore a compressed payload into plain, which has room for FEDNIC_PLAIN_MOST bytes. Returns the
 * bytes restored. 0: these bytes are not of the format; plain is arbitrary then. */
size_t fednic_form_read(const uint8_t *src, size_t len, uint8_t *plain);

/** Copy len bytes to dst, and round their whole floats as a compressed segment would. `floats` is
 * scratch for len / 4 of them. False: no byte has changed. */
bool fednic_form_round(int e, const uint8_t *plain, size_t len, size_t lead, float *floats,
                       uint8_t *dst);

#endif
