/* CRC-32 as in Ethernet and zip, computed piece by piece, with a table of 16 entries. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_CRC32_H
#define FEDCLIENT_CRC32_H

#include <stddef.h>
#include <stdint.h>

/** Continue a CRC. crc is 0 at first, then the result of the last call. */
static inline uint32_t flash_crc32(uint32_t crc, const void *data, size_t len) {
    static const uint32_t table[16] = {0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC,
                                       0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
                                       0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
                                       0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
    const uint8_t *byte = data;
    crc = ~crc;
    for (size_t k = 0; k < len; k++) {
        crc ^= byte[k];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

#endif
