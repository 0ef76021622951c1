/* Models, deltas and keyframes in server.db: the store's functions of that name, as in store.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_ROWS_H
#define FEDSERVER_STORES_SQLITE_ROWS_H

#include "fedserver/stores/store.h"

/* model_rows.c */
fed_status fedserver_sqlite_model_put(void *user, uint64_t task, const fedserver_model_row *model,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_model_find(void *db, uint64_t task, fedserver_model_row *model,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_delta_add(void *db, uint64_t task, uint32_t version,
                                      const uint8_t *part, size_t len, const uint64_t *kept,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_delta_prune(void *db, uint64_t task, uint32_t version,
                                        fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_delta_each(void *db, uint64_t task, uint32_t after, uint32_t last,
                                       fedserver_delta_visit visit, void *user,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_delta_sum(void *db, uint64_t task, uint32_t after, uint32_t *count,
                                      uint64_t *bytes, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_keyframe_add(void *db, uint64_t task,
                                         const fedserver_keyframe *keyframe,
                                         fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_keyframe_find(void *db, uint64_t task, uint32_t version,
                                          fedserver_keyframe *keyframe, float **values,
                                          fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_keyframe_prune(void *db, uint64_t task, uint32_t version,
                                           fed_error *err) FED_CHECKED;

/* sqlite.c: the store's shrink. */
fed_status fedserver_sqlite_shrink(void *db, bool *left, fed_error *err) FED_CHECKED;

#endif
