/* Tells the service manager that started the program its state: the protocol of sd_notify(3). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_COMMANDS_NOTIFY_H
#define FEDSERVER_COMMANDS_NOTIFY_H

/*
 * A service manager such as systemd names a datagram socket in $NOTIFY_SOCKET. A program sends
 * lines to the socket: "READY=1", "STOPPING=1", and "WATCHDOG=1" again and again where
 * $WATCHDOG_USEC asks for a sign of life. If a variable is missing, its messages are not sent. The
 * functions return no errors, because nothing depends on whether a message arrives.
 */

/** Send one message, such as "READY=1". */
void notify_send(const char *message);

/** Send WATCHDOG=1 if a third of the service manager's limit has passed since the last one. Call
 * it at least once a second, from the loop that the service manager is to watch. */
void notify_alive(void);

#endif
