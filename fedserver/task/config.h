/* Task files: the JSON that `fedserver task` reads (docs/protocol.md#task). */
#ifndef FEDSERVER_CONFIG_H
#define FEDSERVER_CONFIG_H

#include <stddef.h>

#include "fed/error.h"
#include "fedserver/task/task.h"

/** A task as its file describes it. */
typedef struct fedserver_config {
    fedserver_task task; /* without id, state and times; model and codecs in their canonical text */
    char initial[1024];  /* path of a safetensors file to start from; "": random weights */
} fedserver_config;

/** Understand text[len]; `path` names the file in messages, and relative paths start beside it.
 * Errors: FED_EFORMAT no JSON, FED_EINVAL a key or value: "FILE:LINE: key ...". */
fed_status fedserver_config_parse(const char *path, const char *text, size_t len,
                                  fedserver_config *config, fed_error *err) FED_CHECKED;

/** Read a task file. */
fed_status fedserver_config_read(const char *path, fedserver_config *config,
                                 fed_error *err) FED_CHECKED;

/** Make its first model: *values is float32[*size], the caller's to free(). */
fed_status fedserver_config_values(const fedserver_config *config, float **values, size_t *size,
                                   fed_error *err) FED_CHECKED;

#endif
