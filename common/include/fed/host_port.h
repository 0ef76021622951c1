/* An address of TCP as text: "HOST:PORT". */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_HOST_PORT_H
#define FED_HOST_PORT_H

#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

enum { FED_HOST = 256 /* a name has at most 253 characters */ };

typedef struct fed_host_port {
    char host[FED_HOST]; /* of an IPv6 address without its brackets; nobody has looked it up */
    uint16_t port;
    char port_text[6]; /* the same number, as getaddrinfo takes it */
} fed_host_port;

/** Read "name.example:8445", "192.0.2.1:8445" or "[2001:db8::1]:8445". least: the lowest port that
 * will do; 0 where the caller listens, and any free port will do. FED_EINVAL: the sentence says
 * what is wrong with the text. */
fed_status fed_host_port_read(const char *text, uint16_t least, fed_host_port *at,
                              fed_error *err) FED_CHECKED;

FED_API_END

#endif
