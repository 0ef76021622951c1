/* A log that keeps its word: what a batch says is written once the batch is committed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_BATCH_LOG_H
#define FEDSERVER_BATCH_LOG_H

#include <stdbool.h>

#include "fed/bytes.h"
#include "fed/log.h"

/*
 * A line such as "round 7 committed" is true only after its transaction has been committed. While a
 * batch is open, lines are kept in memory; at its end they are written, in their order. Of a batch
 * that failed only warnings and errors are written. Outside a batch every line is written at once.
 */
typedef struct fedserver_batch_log {
    fed_log log; /* what the rest of the coordinator logs to */
    const fed_log *to;
    bool open;
    fed_writer lines; /* a level byte, the text, a 0; and so on */
} fedserver_batch_log;

/** `to` may be NULL: nothing is logged then. Must not be moved afterwards. */
void fedserver_batch_log_init(fedserver_batch_log *b, const fed_log *to);
void fedserver_batch_log_begin(fedserver_batch_log *b);
void fedserver_batch_log_end(fedserver_batch_log *b, bool committed);
/** Ends an open batch as a failed one. */
void fedserver_batch_log_free(fedserver_batch_log *b);

#endif
