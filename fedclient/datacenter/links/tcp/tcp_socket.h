/* Sockets of link "tcp": listen, call, accept, and their options. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_TCP_SOCKET_H
#define FEDDC_TCP_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "fed/error.h"

/** A line over which nothing is acknowledged for so long is down. It is the last resort: who
 * watches over the worker group knows sooner. */
enum { TCP_LINE_MS = 10000 };

/** Mark the packets of a socket for NICs, or unmark them. A listener's mark is that of its
 * answers, and of the sockets that it accepts. false: errno has the reason. */
bool feddc_tcp_mark(int fd, bool marked);

/** Listen on "host:port" or "[host]:port". Errors: FED_EINVAL the text; FED_EIO */
fed_status feddc_tcp_listen(const char *address, const char *congestion, int *fd,
                            fed_error *err) FED_CHECKED;

/** For a socket that listens already: accept does not block, and accepted sockets have this
 * congestion control. NULL: the system's. Errors: FED_EINVAL the kernel lacks it; FED_EIO */
fed_status feddc_tcp_prepare(int listener, const char *congestion, fed_error *err) FED_CHECKED;

/** The next connection that somebody opened; -1: none. */
int feddc_tcp_accept(int listener);

/** Begin to connect, with a socket that is marked or not; it becomes writable when that has ended.
 * Errors: FED_EINVAL the text; FED_ENET no such host, or it refuses; FED_EIO */
fed_status feddc_tcp_call(const char *address, const char *congestion, bool marked, int *fd,
                          fed_error *err) FED_CHECKED;

/** How connecting ended: 0, or an errno. */
int feddc_tcp_called(int fd);

/** One recv or send without waiting. -1: the connection has ended; else the bytes, and 0: not now.
 */
ssize_t feddc_tcp_read(int fd, void *dst, size_t len);
ssize_t feddc_tcp_write(int fd, const void *src, size_t len);

/** Close if it is open, and make it -1. */
void feddc_tcp_close_fd(int *fd);

#endif
