/* The option --upstream of `fedserver run`: an edge aggregator's device at another coordinator. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_COMMANDS_UPSTREAM_H
#define FEDSERVER_COMMANDS_UPSTREAM_H

#include "fedserver/commands/command.h"

typedef struct upstream upstream;

/** Write the path of the folder DIR/upstream to dst, cut to cap bytes. */
void upstream_folder(const char *dir, char *dst, size_t cap);

/**
 * Open the device, whose state is in DIR/upstream, and the edge aggregator's rounds. The device's
 * thread starts with the first upstream_tend. server, args and log must outlive the result.
 */
fed_status upstream_open(fedserver *server, const arguments *args, const fed_log *log,
                         upstream **made, fed_error *err) FED_CHECKED;

/** Continue the device's work. Call this function in the thread that serves, between two batches of
 * requests. After an error the process must end. */
fed_status upstream_tend(upstream *u, fed_error *err) FED_CHECKED;

/** End the device's thread, and free it. NULL is allowed. */
void upstream_close(upstream *u);

#endif
