/* Sockets of link "tcp": listen, call, accept, and their options. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_TCP_SOCKET_H
#define FEDDC_TCP_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "fed/error.h"

/** A connection whose sent bytes are not acknowledged for this time is broken. The failure detector
 * (feddc/control.h) usually notices sooner. */
enum { TCP_LINE_MS = 10000 };

/** Mark a socket's packets for NICs, or unmark them. A listener's mark also applies to its answers
 * and accepted sockets. false: errno has the reason. */
bool feddc_tcp_mark(int fd, bool marked);

/** Listen on "host:port" or "[host]:port". Errors: FED_EINVAL the text is no address, or the
 * kernel lacks the congestion control; FED_ENET the host is not found; FED_EIO */
fed_status feddc_tcp_listen(const char *address, const char *congestion, int *fd,
                            fed_error *err) FED_CHECKED;

/** Make accept non-blocking, and give accepted sockets this congestion control (NULL: the
 * system's). Errors: FED_EINVAL the kernel lacks the congestion control; FED_EIO */
fed_status feddc_tcp_prepare(int listener, const char *congestion, fed_error *err) FED_CHECKED;

/** Accept the next connection. -1: there is none, or it cannot be used. */
int feddc_tcp_accept(int listener);

/** Begin to connect, marked for NICs or not. The socket becomes writable when connecting has ended.
 * Errors: FED_EINVAL the text is no address, or the kernel lacks the congestion control; FED_ENET
 * no such host, or it refuses; FED_EIO */
fed_status feddc_tcp_call(const char *address, const char *congestion, bool marked, int *fd,
                          fed_error *err) FED_CHECKED;

/** The result of connecting: 0, or an errno. */
int feddc_tcp_called(int fd);

/** One recv or send without waiting. Returns the number of bytes; 0: try again later; -1: the
 * connection has ended or failed. */
ssize_t feddc_tcp_read(int fd, void *dst, size_t len);
ssize_t feddc_tcp_write(int fd, const void *src, size_t len);

/** Close *fd unless it is -1, and set it to -1. */
void feddc_tcp_close_fd(int *fd);

#endif
