/* The rows of server.db: the store's functions of that name, as in store.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_ROWS_H
#define FEDSERVER_STORES_SQLITE_ROWS_H

#include "fedserver/stores/store.h"

/* token_rows.c */
fed_status fedserver_sqlite_token_add(void *db, const uint8_t *hash, const fedserver_token *token,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_token_find(void *db, const uint8_t *hash, fedserver_token *token,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_token_each(void *db, fedserver_token_visit visit, void *user,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_token_withdraw(void *user, const uint8_t *hash, int64_t now_ms,
                                           fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_token_use(void *user, const uint8_t *hash, int64_t now_ms,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_pass_add(void *db, const uint8_t *hash, const fedserver_pass *pass,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_pass_find(void *db, const uint8_t *hash, fedserver_pass *pass,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_pass_use(void *db, const uint8_t *hash, int64_t now_ms,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_pass_end(void *db, int64_t until_ms, fed_error *err) FED_CHECKED;

/* device_rows.c */
fed_status fedserver_sqlite_device_add(void *user, fedserver_device *device,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_device_put(void *db, const fedserver_device *device,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_device_revoke(void *db, int64_t device, int64_t now_ms,
                                          fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_device_name(void *db, int64_t device, const uint8_t *fingerprint,
                                        fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_device_rename(void *db, int64_t device, const char *name,
                                          fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_device_renew(void *db, int64_t device, int64_t expires_ms,
                                         fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_device_find(void *db, const uint8_t *fingerprint,
                                        fedserver_device *device, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_device_each(void *db, fedserver_device_visit visit, void *user,
                                        fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_device_changes(void *db, int64_t after, fedserver_device_visit visit,
                                           void *user, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_device_page(void *db, uint64_t task, int64_t after, uint32_t limit,
                                        fedserver_device_visit visit, void *user,
                                        fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_device_count(void *db, uint64_t *count, fed_error *err) FED_CHECKED;

/* model_rows.c */
fed_status fedserver_sqlite_model_put(void *db, uint64_t task, const fedserver_model_row *model,
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

/* round_rows.c */
fed_status fedserver_sqlite_round_put(void *db, uint64_t task, const fedserver_round_row *row,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_round_each(void *db, uint64_t task, uint32_t limit,
                                       fedserver_round_visit visit, void *user,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_metric_put(void *db, int64_t device, const fed_metric *metric,
                                       fed_error *err) FED_CHECKED;

fed_status fedserver_sqlite_own_put(void *db, uint64_t task, uint32_t version, int64_t device,
                                    const fedserver_own_metric *rows, size_t count,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_own_each(void *db, uint64_t task, uint32_t first,
                                     fedserver_own_row_visit visit, void *user,
                                     fed_error *err) FED_CHECKED;

/* pieces.c */
fed_status fedserver_sqlite_piece_add(void *db, int64_t device, const fed_piece *piece,
                                      const uint8_t *data, size_t len, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_piece_find(void *db, int64_t device, fed_piece *piece, uint64_t *end,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_piece_join(void *db, int64_t device, uint8_t *dst, size_t cap,
                                       size_t *len, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_piece_clear(void *db, int64_t device, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_piece_prune(void *db, uint64_t task, uint32_t round,
                                        fed_error *err) FED_CHECKED;

/* audit_rows.c */
fed_status fedserver_sqlite_audit_add(void *db, const fedserver_audit_entry *entry,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_audit_each(void *db, int64_t since_ms, fedserver_audit_visit visit,
                                       void *user, fed_error *err) FED_CHECKED;

/* declines.c */
fed_status fedserver_sqlite_decline_put(void *db, uint64_t task, int64_t device, const char *reason,
                                        int64_t now_ms, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_decline_each(void *db, uint64_t task, int64_t after_ms,
                                         fedserver_decline_visit visit, void *user,
                                         fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_decline_forget(void *db, uint64_t task, fed_error *err) FED_CHECKED;
/** The most frequent reasons of those declines of the entry's task that are newer. */
fed_status fedserver_sqlite_decline_reasons(void *db, int64_t after_ms, fedserver_task_entry *entry,
                                            fed_error *err) FED_CHECKED;

#endif
