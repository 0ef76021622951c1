/* What a program tells the service manager that started it: sd_notify(3)'s protocol. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_COMMANDS_NOTIFY_H
#define FEDSERVER_COMMANDS_NOTIFY_H

/*
 * A service manager such as systemd names a datagram socket in $NOTIFY_SOCKET. A program sends
 * lines to the socket: "READY=1", "STOPPING=1", and "WATCHDOG=1" again and again where
 * $WATCHDOG_USEC asks for a sign of life. Without that variable nothing is sent. Nothing here
 * fails: if the service manager does not listen, it misses a message that nobody else waits for.
 */

/** Send one message of at most 500 bytes, such as "READY=1". */
void notify_send(const char *message);

/** Send a sign of life if a third of the manager's limit has passed since the last one. Call it at
 * least once a second, from the loop that must not get stuck. */
void notify_alive(void);

#endif
