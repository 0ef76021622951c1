/* A TCP address as text: "HOST:PORT". */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_HOST_PORT_H
#define FED_HOST_PORT_H

#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

enum { FED_HOST = 256 /* a name has at most 253 characters */ };

typedef struct fed_host_port {
    char host[FED_HOST]; /* not resolved yet; an IPv6 address has no brackets here */
    uint16_t port;
    char port_text[6]; /* the port as text, for getaddrinfo */
} fed_host_port;

/** Read "name.example:8445", "192.0.2.1:8445" or "[2001:db8::1]:8445". least: the lowest port that
 * is allowed; 0 for a listener that accepts any free port. FED_EINVAL: *err says what is wrong
 * with the text. */
fed_status fed_host_port_read(const char *text, uint16_t least, fed_host_port *at,
                              fed_error *err) FED_CHECKED;

FED_API_END

#endif
