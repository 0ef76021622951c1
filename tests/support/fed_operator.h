/* Changes a coordinator's directory as an operator's commands do. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_OPERATOR_H
#define FED_OPERATOR_H

#include "fedserver/operator.h"

/** Queue a task given as JSON. folder: directory of the files that it names. Returns the task's
 * number. */
uint64_t fed_operator_task(const char *home, const char *folder, const char *json);

void fed_operator_token(const char *home, const fedserver_grant *grant,
                        char token[FEDSERVER_TOKEN]);

/** Return the certificate of the coordinator's CA as PEM. The caller frees it. */
char *fed_operator_ca(const char *home);

#endif
