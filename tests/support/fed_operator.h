/* What an operator does with a coordinator's directory, beside the process that serves it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_OPERATOR_H
#define FED_OPERATOR_H

#include "fedserver/operator.h"

/** Queue a task from JSON; its files lie in `folder`. Returns the task's number. */
uint64_t fed_operator_task(const char *home, const char *folder, const char *json);

void fed_operator_token(const char *home, const fedserver_grant *grant,
                        char token[FEDSERVER_TOKEN]);

/** Return the certificate of the coordinator's CA as PEM. The caller frees it. */
char *fed_operator_ca(const char *home);

#endif
