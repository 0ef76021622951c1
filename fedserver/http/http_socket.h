/* The sockets below the HTTP adapter: listening, and asking whether a peer is still there. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_SOCKET_H
#define FEDSERVER_HTTP_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"

/**
 * Listen on a numeric address ("127.0.0.1", "::"). *port: the port that is wanted, or 0 for any
 * free one; on return the bound port. A port is free even if connections of a killed predecessor
 * still linger on it. If a program still listens on the port, the function waits a second: after a
 * kill the front may end a little later than its parent. Errors: FED_EINVAL no such address;
 * FED_EBUSY in use; FED_EAUTH not allowed; FED_EIO. The caller owns *fd and ends it with close().
 */
fed_status http_socket_listen(const char *address, uint16_t *port, int *fd,
                              fed_error *err) FED_CHECKED;

/** Has the peer closed its side, or left? Bytes that it sent before do not matter. */
bool http_socket_gone(int fd);

/** How many connections two listeners may have together, given the limit of open files. */
uint32_t http_socket_budget(void);

#endif
