/* Makes parts of the status as JSON, for the page, for programs and for the command line. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STATUS_JSON_H
#define FEDSERVER_STATUS_JSON_H

#include <jansson.h>

#include "fedserver/rounds/rounds.h"
#include "fedserver/server.h"

/** The task's open round; a JSON null if it has none. Returns NULL if out of memory. */
json_t *fedserver_round_json(const fedserver_training *training, int64_t now_ms);

/** Set the task's keys (docs/protocol.md#task), as they are for the round after `version`. */
void fedserver_task_keys_add(json_t *made, const fedserver_task *task, uint32_t version);

/** How the devices of a task are protected, which may be over: a JSON null where it is not private.
 * since_ms: since when its open round has waited for its helper; 0: it does not. The caller owns
 * *made. */
fed_status fedserver_privacy_json(fedserver *server, const fedserver_task *task, int64_t since_ms,
                                  json_t **made, fed_error *err) FED_CHECKED;

/** A list of the worker groups that are in memory. Returns NULL if out of memory. */
json_t *fedserver_worker_groups_json(fedserver *server, int64_t now_ms);

/** Make the list of tasks, with only the newest `most` of those that are over. `rounds` has the
 * running tasks; each of these gets its open round. The caller owns *tasks. */
fed_status fedserver_tasks_list(fedserver *server, const fedserver_rounds *rounds, int64_t now_ms,
                                size_t most, json_t **tasks, fed_error *err) FED_CHECKED;

#endif
