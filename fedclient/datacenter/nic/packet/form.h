/* The payload of a compressed segment, as docs/nic-format.md defines it: write and read it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_FORM_H
#define FEDNIC_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `lead` is the number of first bytes that belong to a float which began in an earlier segment. */

/** The most bytes of payload that can be compressed. */
enum { FEDNIC_PLAIN_MOST = 65535 };

/** Return how many of the len bytes at position `at` of a stream of floats belong to an earlier
 * float. */
size_t fednic_form_lead(uint32_t at, size_t len);

/** Compress plain[len], or its first bytes that fit, into at most `limit` bytes. Returns the bytes
 * written; 0: limit is too small even without a float. *taken: bytes of plain that were
 * compressed. */
size_t fednic_form_write(int e, const uint8_t *plain, size_t len, size_t lead, size_t limit,
                         uint8_t *dst, size_t *taken);

/** Restore a payload into plain[FEDNIC_PLAIN_MOST]. Returns the number of bytes; 0: src is not of
 * the format, and plain has arbitrary bytes. */
size_t fednic_form_read(const uint8_t *src, size_t len, uint8_t *plain);

/** Copy len bytes to dst, and round their whole floats as compression would. `floats` is scratch
 * memory for len / 4 floats. false: no byte has changed. */
bool fednic_form_round(int e, const uint8_t *plain, size_t len, size_t lead, float *floats,
                       uint8_t *dst);

#endif
