/* Which task runs. */
#ifndef FEDSERVER_QUEUE_H
#define FEDSERVER_QUEUE_H

#include "fedserver/rounds/rounds.h"

/** A person may have cancelled or paused the task that runs: then let go of it. */
fed_status fedserver_queue_follow(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Set a task aside that nobody serves, start the next one, give space back. *next_ms comes nearer
 * where it is to be called again before. */
fed_status fedserver_queue_advance(fedserver_rounds *rounds, int64_t now_ms, int64_t *next_ms,
                                   fed_error *err) FED_CHECKED;

/** Give back all the space that a cancelled task has left, at once: nobody serves meanwhile. */
fed_status fedserver_queue_tidy(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Was that task cancelled? Where the store can't tell: no. */
bool fedserver_task_cancelled(fedserver_rounds *rounds, uint64_t id);

#endif
