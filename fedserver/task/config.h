/* Reads task files: the JSON that `fedserver task` takes (docs/protocol.md#task). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CONFIG_H
#define FEDSERVER_CONFIG_H

#include <stddef.h>

#include "fed/arch.h"
#include "fed/error.h"
#include "fedserver/task/task.h"

/** Parse text[len] and check it. `path` names the file in messages. A relative path in the text is
 * relative to the folder of `path`. FED_EFORMAT: the text is no JSON object. FED_EINVAL: a key or a
 * value is wrong or missing; the message names the key. On failure *config is unchanged. End with
 * fedserver_config_free. */
fed_status fedserver_config_parse(const char *path, const char *text, size_t len,
                                  fedserver_config *config, fed_error *err) FED_CHECKED;

/** Free what a config owns. A config whose model fits into the task owns nothing. */
void fedserver_config_free(fedserver_config *config);

/** Parse the config's model, without its private layers. The caller frees *arch with fed_arch_free.
 */
fed_status fedserver_config_model(const fedserver_config *config, fed_arch *arch,
                                  fed_error *err) FED_CHECKED;

/** Read a task file, and check it as fedserver_config_parse does. */
fed_status fedserver_config_read(const char *path, fedserver_config *config,
                                 fed_error *err) FED_CHECKED;

/** Make the task's first model: *values is float32[*size], which the caller frees with free(). */
fed_status fedserver_config_values(const fedserver_config *config, float **values, size_t *size,
                                   fed_error *err) FED_CHECKED;

#endif
