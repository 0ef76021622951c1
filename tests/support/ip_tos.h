/* Reads the type of service of an IPv4 header, or the traffic class of an IPv6 header. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IP_TOS_H
#define IP_TOS_H

#include <stdint.h>

/** DSCP and ECN of the header that begins at ip. */
static inline uint8_t ip_tos(const uint8_t *ip) {
    return ip[0] >> 4 == 4 ? ip[1] : (uint8_t)(ip[0] << 4 | ip[1] >> 4);
}

#endif
