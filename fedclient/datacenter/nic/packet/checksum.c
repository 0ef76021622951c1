/* The Internet's checksum (RFC 1071), eight bytes at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/nic/packet/checksum.h"

#include <string.h>

/* Words are added in the machine's byte order: the sum of byte-swapped words is the byte-swapped
 * sum. The low and high 4 bytes of each 8 have a sum each, which cannot overflow before 2^32
 * additions. */
uint16_t fednic_sum(const uint8_t *data, size_t len) {
    uint64_t low = 0, high = 0, eight;
    size_t i = 0;
    for (; len - i >= sizeof eight; i += sizeof eight) {
        memcpy(&eight, data + i, sizeof eight);
        low += eight & UINT32_MAX;
        high += eight >> 32;
    }
    if (i < len) {
        eight = 0;
        memcpy(&eight, data + i, len - i);
        low += eight & UINT32_MAX;
        high += eight >> 32;
    }
    uint64_t sum = (low & UINT32_MAX) + (low >> 32) + (high & UINT32_MAX) + (high >> 32);
    while (sum > UINT16_MAX) {
        sum = (sum & UINT16_MAX) + (sum >> 16);
    }
    uint16_t word = (uint16_t)sum;
    uint8_t bytes[2];
    memcpy(bytes, &word, sizeof bytes);
    return (uint16_t)(bytes[0] << 8 | bytes[1]);
}
