/* The sockets below the HTTP adapter: whether a peer has left, and how many peers may connect. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_SOCKET_H
#define FEDSERVER_HTTP_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

/** Has the peer closed its side of the connection, or broken it? Unread bytes are ignored. */
bool http_socket_gone(int fd);

/** How many connections this process may have, given the limit of open files. */
uint32_t http_socket_budget(void);

#endif
