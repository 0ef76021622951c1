/* The store in memory, in two files: memory_store.c and memory_tasks.c. Functions as in store.h. */
#ifndef FEDSERVER_STORES_MEMORY_TABLES_H
#define FEDSERVER_STORES_MEMORY_TABLES_H

#include "fedserver/stores/memory/memory_rows.h"
#include "fedserver/stores/store.h"

/** A decline's row; the reason follows, with its zero. */
typedef struct memory_decline {
    int64_t at_ms;
} memory_decline;

/** An update's row; the body follows. */
typedef struct memory_update {
    fedserver_update_row row;
} memory_update;

fed_status fedserver_memory_task_add(void *db, fedserver_task *task, fed_error *err) FED_CHECKED;
fed_status fedserver_memory_task_find(void *db, fedserver_task_pick pick, uint64_t id,
                                      fedserver_task *task, fed_error *err) FED_CHECKED;
fed_status fedserver_memory_task_put(void *db, const fedserver_task *task, unsigned from,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_memory_task_each(void *db, int64_t declines_after_ms,
                                      fedserver_task_visit visit, void *user,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_memory_task_place(void *db, uint64_t id, uint64_t position,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_memory_task_clear(void *db, uint64_t *id, fed_error *err) FED_CHECKED;

fed_status fedserver_memory_update_clear(void *db, uint64_t task, fed_error *err) FED_CHECKED;

#endif
