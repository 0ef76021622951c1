/* The sockets below the HTTP adapter: listening, and asking whether a peer is still there. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_SOCKET_H
#define FEDSERVER_HTTP_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/hash.h"

/**
 * Listen on a numeric address ("127.0.0.1", "::"). *port: the one wanted, or 0 for any free one; on
 * return the one bound. A port that connections of a killed predecessor still linger on is free;
 * for one that a program still listens on it waits a second, as after a kill the front may end a
 * little later than its parent. Errors: FED_EINVAL no such address; FED_EBUSY in use; FED_EAUTH not
 * allowed; FED_EIO. Owner of *fd: the caller, close().
 */
fed_status http_socket_listen(const char *address, uint16_t *port, int *fd,
                              fed_error *err) FED_CHECKED;

/** Has the peer closed its side, or gone? What it sent before does not matter. */
bool http_socket_gone(int fd);

/** How many connections two listeners may have together, going by the open files allowed. */
uint32_t http_socket_budget(void);

#endif
