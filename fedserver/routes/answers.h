/* Makes answers that several routes give. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ANSWERS_H
#define FEDSERVER_ANSWERS_H

#include <jansson.h>

#include "fed/bytes.h"
#include "fed/error.h"
#include "fedserver/fedserver.h"

/** Answer with bytes, and take over the growing writer's memory. */
fed_status fedserver_answer(fedserver_response *response, int status, const char *content_type,
                            fed_writer *bytes, fed_error *err) FED_CHECKED;

/** Answer with the page's file of that path; 404 if there is no such file. */
fed_status fedserver_answer_page(fedserver_response *response, int status, const char *path,
                                 fed_error *err) FED_CHECKED;

/** Append a JSON value as text, with jansson's flags. The function takes over the caller's
 * reference. FED_ENOMEM: out of memory, or the value is NULL. */
fed_status fedserver_json_write(json_t *value, size_t flags, fed_writer *w) FED_CHECKED;

/** Answer with a JSON value. The function takes over the caller's reference. A value that is NULL
 * counts as out of memory. */
fed_status fedserver_answer_json(fedserver_response *response, int status, json_t *value,
                                 fed_error *err) FED_CHECKED;

/** Answer {"error": word, "message": ...}. Returns FED_OK unless memory runs out: a faulty request
 * is no error of the coordinator. */
fed_status fedserver_answer_error(fedserver_response *response, fed_error *err, int status,
                                  const char *word, const char *format, ...)
    FED_PRINTF(5, 6) FED_CHECKED;

/** Cut the answer in *response to the range that the request wants. tag: the entity tag of the
 * whole answer. */
fed_status fedserver_answer_range(const fedserver_request *request, uint64_t tag,
                                  fedserver_response *response, fed_error *err) FED_CHECKED;

#endif
