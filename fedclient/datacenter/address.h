/* Addresses as text: "host:port", "[host]:port". */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_ADDRESS_H
#define FEDDC_ADDRESS_H

#include <stddef.h>

#include "fed/error.h"

/** Split at the last colon; the brackets of an IPv6 address stay out. host and port are texts of
 * fewer than `host_room` and `port_room` characters. FED_EINVAL: it is no address. */
fed_status feddc_address_split(const char *address, char *host, size_t host_room, char *port,
                               size_t port_room, fed_error *err) FED_CHECKED;

#endif
