/* Ports for servers that a test stops and starts again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_PORT_H
#define FED_PORT_H

#include <stdint.h>

/** A port that is free on all addresses of this machine, and stays so until this process ends. A
 * server with SO_REUSEADDR can listen on it, again and again. While none does, the system gives the
 * port to no other socket, above all not to a connection that goes out. */
uint16_t fed_port_keep(void);

#endif
