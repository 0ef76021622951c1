/* The Internet's checksum: sums of 16-bit words, and their update when words change. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_CHECKSUM_H
#define FEDNIC_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/*
 * A sum is the one's complement sum of big-endian 16-bit words, folded to 16 bits (RFC 1071). A
 * header's checksum field holds the complement of a sum; if Linux completes the checksum later,
 * the field holds a sum. 0 and 0xffff are the same sum.
 */

/** The sum of data[len]; an odd last byte counts as a word's upper half. */
uint16_t fednic_sum(const uint8_t *data, size_t len);

static inline uint16_t fednic_sum_add(uint16_t a, uint16_t b) {
    uint32_t sum = (uint32_t)a + b;
    return (uint16_t)(sum + (sum >> 16));
}

/** The sum without a part of it. */
static inline uint16_t fednic_sum_less(uint16_t sum, uint16_t part) {
    return fednic_sum_add(sum, (uint16_t)~part);
}

/** Update a checksum field when the checked bytes lose `old` and gain `new_sum` (RFC 1624, equation
 * 3). A wrong field stays wrong. */
static inline uint16_t fednic_checksum_update(uint16_t field, uint16_t old, uint16_t new_sum) {
    return (uint16_t)~fednic_sum_add(fednic_sum_less((uint16_t)~field, old), new_sum);
}

#endif
