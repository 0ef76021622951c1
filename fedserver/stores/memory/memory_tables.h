/* The store in memory, in three files: memory_store.c, memory_tasks.c and memory_rounds.c. The
 * functions are store.h's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_MEMORY_TABLES_H
#define FEDSERVER_STORES_MEMORY_TABLES_H

#include "fedserver/stores/memory/memory_rows.h"
#include "fedserver/stores/store.h"

/** What a row begins with. */
#define HEAD(row, type) ((const type *)(const void *)(row)->bytes)

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

fed_status fedserver_memory_update_clear(void *db, uint64_t task, uint32_t round,
                                         fed_error *err) FED_CHECKED;

/** The device of that id; NULL: there is none. */
const fedserver_device *fedserver_memory_device(const memory_db *db, int64_t id);

fed_status fedserver_memory_model_put(void *db, uint64_t task, const fedserver_model_row *model,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_memory_model_find(void *db, uint64_t task, fedserver_model_row *model,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_memory_delta_add(void *db, uint64_t task, uint32_t version,
                                      const uint8_t *part, size_t len, const uint64_t *kept,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_memory_delta_prune(void *db, uint64_t task, uint32_t version,
                                        fed_error *err) FED_CHECKED;
fed_status fedserver_memory_delta_each(void *db, uint64_t task, uint32_t after, uint32_t last,
                                       fedserver_delta_visit visit, void *user,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_memory_delta_sum(void *db, uint64_t task, uint32_t after, uint32_t *count,
                                      uint64_t *bytes, fed_error *err) FED_CHECKED;
fed_status fedserver_memory_keyframe_add(void *db, uint64_t task,
                                         const fedserver_keyframe *keyframe,
                                         fed_error *err) FED_CHECKED;
fed_status fedserver_memory_keyframe_find(void *db, uint64_t task, uint32_t version,
                                          fedserver_keyframe *keyframe, float **values,
                                          fed_error *err) FED_CHECKED;
fed_status fedserver_memory_keyframe_prune(void *db, uint64_t task, uint32_t version,
                                           fed_error *err) FED_CHECKED;
fed_status fedserver_memory_round_put(void *db, uint64_t task, const fedserver_round_row *row,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_memory_round_each(void *db, uint64_t task, uint32_t limit,
                                       fedserver_round_visit visit, void *user,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_memory_metric_put(void *db, int64_t device, const fed_metric *metric,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_memory_own_put(void *db, uint64_t task, uint32_t version, int64_t device,
                                    const fedserver_own_metric *rows, size_t count,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_memory_own_each(void *db, uint64_t task, uint32_t first,
                                     fedserver_own_row_visit visit, void *user,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_memory_update_add(void *db, const fedserver_update_row *row,
                                       const uint8_t *body, size_t len, fed_error *err) FED_CHECKED;
fed_status fedserver_memory_update_each(void *db, uint64_t task, uint32_t round,
                                        fedserver_update_visit visit, void *user,
                                        fed_error *err) FED_CHECKED;
fed_status fedserver_memory_update_count(void *db, uint64_t task, uint32_t round, uint32_t *count,
                                         fed_error *err) FED_CHECKED;
fed_status fedserver_memory_piece_add(void *db, int64_t device, const fed_piece *piece,
                                      const uint8_t *data, size_t len, fed_error *err) FED_CHECKED;
fed_status fedserver_memory_piece_find(void *db, int64_t device, fed_piece *piece, uint64_t *end,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_memory_piece_join(void *db, int64_t device, uint8_t *dst, size_t cap,
                                       size_t *len, fed_error *err) FED_CHECKED;
fed_status fedserver_memory_piece_clear(void *db, int64_t device, fed_error *err) FED_CHECKED;
fed_status fedserver_memory_lease_prune(void *db, uint64_t task, uint32_t round,
                                        fed_error *err) FED_CHECKED;

#endif
