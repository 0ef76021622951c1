/* Parts of the status as JSON, which the page, programs and the command line share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STATUS_JSON_H
#define FEDSERVER_STATUS_JSON_H

#include <jansson.h>

#include "fedserver/rounds/rounds.h"
#include "fedserver/server.h"

/** The task's open round; null: there is none. NULL: no memory. */
json_t *fedserver_round_json(const fedserver_training *training, int64_t now_ms);

/** A list of the worker groups that are remembered. NULL: no memory. */
json_t *fedserver_worker_groups_json(fedserver *server, int64_t now_ms);

/** The list of tasks; of the ended ones only the newest `most`. `rounds` has the running tasks, and
 * each gets its open round. The caller owns *tasks. */
fed_status fedserver_tasks_list(fedserver *server, const fedserver_rounds *rounds, int64_t now_ms,
                                size_t most, json_t **tasks, fed_error *err) FED_CHECKED;

#endif
