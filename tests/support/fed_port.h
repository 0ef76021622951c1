/* Ports for servers that a test stops and starts again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_PORT_H
#define FED_PORT_H

#include <stdint.h>

/** Return a port that is free on all addresses. Until the process ends, servers with SO_REUSEADDR
 * can listen on it, and the system gives it to no other socket. */
uint16_t fed_port_keep(void);

#endif
