/* A log that writes a batch of requests' lines only once its transaction has ended. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_BATCH_LOG_H
#define FEDSERVER_BATCH_LOG_H

#include <stdbool.h>

#include "fed/bytes.h"
#include "fed/log.h"

/*
 * A line such as "round 7: committed with 3 updates" is true only after its transaction has been
 * committed. While a batch of requests is open, its lines are kept in memory; the end of the batch
 * writes them in their order. If the batch failed, only lines of the levels warning and error are
 * written, and the others are dropped. Outside a batch every line is written at once.
 */
typedef struct fedserver_batch_log {
    fed_log log; /* the log that the rest of the coordinator writes to */
    const fed_log *to;
    bool open;
    fed_writer lines; /* for each line: level, task, round, the task's name, text */
} fedserver_batch_log;

/** to: where the lines go; NULL: nowhere. The struct must not be moved after this call. */
void fedserver_batch_log_init(fedserver_batch_log *b, const fed_log *to);
void fedserver_batch_log_begin(fedserver_batch_log *b);
void fedserver_batch_log_end(fedserver_batch_log *b, bool committed);
/** Free the log. A batch of requests that is still open counts as failed. */
void fedserver_batch_log_free(fedserver_batch_log *b);

#endif
