/* Ports for servers that a test stops and starts again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_PORT_H
#define FED_PORT_H

#include <stdint.h>

/** Return a port that is free on all addresses of this machine. It stays reserved until the
 * process ends, and a server with SO_REUSEADDR can listen on it repeatedly. Meanwhile the
 * system gives the port to no other socket, above all not to an outgoing connection. */
uint16_t fed_port_keep(void);

#endif
