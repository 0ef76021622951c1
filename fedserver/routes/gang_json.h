/* The gangs behind devices as JSON, and as metrics. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_GANG_JSON_H
#define FEDSERVER_GANG_JSON_H

#include <jansson.h>

#include "fedserver/server.h"

/** A list of the gangs that are remembered. NULL: no memory. */
json_t *fedserver_gangs_json(fedserver *server, int64_t now_ms);

/** How many gangs train now, and their workers by state. */
void fedserver_gangs_metrics(fedserver *server, int64_t now_ms, fed_writer *w);

#endif
