/* Reads task files: the JSON that `fedserver task` takes (docs/protocol.md#task). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CONFIG_H
#define FEDSERVER_CONFIG_H

#include <stddef.h>

#include "fed/error.h"
#include "fedserver/task/task.h"

/** Parse text[len] and check it. `path` names the file in messages. A relative path in the text
 * begins at the folder of `path`. Errors: FED_EFORMAT the text is not JSON; FED_EINVAL a key or a
 * value is wrong: "FILE:LINE: key ...". *config changes only on success. */
fed_status fedserver_config_parse(const char *path, const char *text, size_t len,
                                  fedserver_config *config, fed_error *err) FED_CHECKED;

/** Read a task file. */
fed_status fedserver_config_read(const char *path, fedserver_config *config,
                                 fed_error *err) FED_CHECKED;

/** Make the first model of the task: *values is float32[*size], which the caller frees. */
fed_status fedserver_config_values(const fedserver_config *config, float **values, size_t *size,
                                   fed_error *err) FED_CHECKED;

#endif
