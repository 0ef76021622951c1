/* The sockets below the HTTP adapter: whether a peer is still connected, and how many may connect.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_SOCKET_H
#define FEDSERVER_HTTP_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

/** Has the peer closed its side of the connection, or broken it? Bytes that it sent before are
 * ignored. */
bool http_socket_gone(int fd);

/** How many connections two listeners may have together, given the limit of open files. */
uint32_t http_socket_budget(void);

#endif
