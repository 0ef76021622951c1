/* Functions of the store that are the same on every SQL engine. store.h explains those without a
 * comment, under their names without fedserver_sql_. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQL_SQL_ROWS_H
#define FEDSERVER_STORES_SQL_SQL_ROWS_H

#include "fedserver/stores/store.h"

fed_status fedserver_sql_token_add(void *db, const uint8_t *hash, const fedserver_token *token,
                                   fed_error *err) FED_CHECKED;
fed_status fedserver_sql_token_find(void *db, const uint8_t *hash, fedserver_token *token,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_sql_token_each(void *db, fedserver_token_visit visit, void *user,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_sql_token_withdraw(void *db, const uint8_t *hash, int64_t now_ms,
                                        fed_error *err) FED_CHECKED;
fed_status fedserver_sql_token_use(void *db, const uint8_t *hash, int64_t now_ms,
                                   fed_error *err) FED_CHECKED;
fed_status fedserver_sql_pass_add(void *db, const uint8_t *hash, const fedserver_pass *pass,
                                  fed_error *err) FED_CHECKED;
fed_status fedserver_sql_pass_find(void *db, const uint8_t *hash, fedserver_pass *pass,
                                   fed_error *err) FED_CHECKED;
fed_status fedserver_sql_pass_use(void *db, const uint8_t *hash, int64_t now_ms,
                                  fed_error *err) FED_CHECKED;
fed_status fedserver_sql_pass_end(void *db, int64_t until_ms, fed_error *err) FED_CHECKED;

fed_status fedserver_sql_device_add(void *db, fedserver_device *device, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_device_put(void *db, const fedserver_device *device,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_sql_device_lease(void *db, const fedserver_device *device,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sql_device_revoke(void *db, int64_t device, int64_t now_ms,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sql_device_name(void *db, int64_t device, const uint8_t *fingerprint,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_sql_device_rename(void *db, int64_t device, const char *name,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sql_device_renew(void *db, int64_t device, int64_t expires_ms,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sql_device_find(void *db, const uint8_t *fingerprint, fedserver_device *device,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_sql_device_each(void *db, fedserver_device_visit visit, void *user,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_sql_device_changes(void *db, int64_t after, fedserver_device_visit visit,
                                        void *user, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_device_newest(void *db, int64_t *change, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_device_leased(void *db, uint64_t task, uint32_t round,
                                       fedserver_device_visit visit, void *user,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sql_device_page(void *db, uint64_t task, int64_t after, uint32_t limit,
                                     fedserver_device_visit visit, void *user,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_sql_device_count(void *db, uint64_t *count, fed_error *err) FED_CHECKED;

fed_status fedserver_sql_opening_put(void *db, uint64_t task, uint32_t round, const void *masks,
                                     size_t len, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_opening_find(void *db, uint64_t task, uint32_t round, void *masks,
                                      size_t len, bool *found, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_opening_refuse(void *db, uint64_t task, uint32_t round,
                                        const char *refusal, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_opening_refused(void *db, uint64_t task, uint32_t round, char *refusal,
                                         size_t cap, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_opening_clear(void *db, uint64_t task, uint32_t round,
                                       fed_error *err) FED_CHECKED;

fed_status fedserver_sql_task_add(void *db, fedserver_task *task, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_layout_put(void *db, uint64_t task, const void *layout, size_t len,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_sql_layout_find(void *db, uint64_t task, void **layout, size_t *len,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_sql_task_find(void *db, fedserver_task_pick pick, uint64_t id,
                                   fedserver_task *task, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_task_put(void *db, const fedserver_task *task, unsigned from,
                                  fed_error *err) FED_CHECKED;
fed_status fedserver_sql_task_each(void *db, int64_t declines_after_ms, fedserver_task_visit visit,
                                   void *user, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_task_describe(void *db, const fedserver_task *task,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sql_task_renew(void *db, fedserver_task *task, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_copied(void *db, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_task_place(void *db, uint64_t id, uint64_t position,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_sql_task_clear(void *db, uint64_t *id, fed_error *err) FED_CHECKED;

fed_status fedserver_sql_round_put(void *db, uint64_t task, const fedserver_round_row *row,
                                   fed_error *err) FED_CHECKED;
fed_status fedserver_sql_round_each(void *db, uint64_t task, uint32_t limit,
                                    fedserver_round_visit visit, void *user,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_sql_update_count(void *db, uint64_t task, uint32_t round, uint32_t *count,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sql_metric_put(void *db, int64_t device, const fed_metric *metric,
                                    fed_error *err) FED_CHECKED;

fed_status fedserver_sql_own_put(void *db, uint64_t task, uint32_t version, int64_t device,
                                 const fedserver_own_metric *rows, size_t count,
                                 fed_error *err) FED_CHECKED;
fed_status fedserver_sql_own_each(void *db, uint64_t task, uint32_t first,
                                  fedserver_own_row_visit visit, void *user,
                                  fed_error *err) FED_CHECKED;

fed_status fedserver_sql_model_put(void *db, uint64_t task, const fedserver_model_row *model,
                                   fed_error *err) FED_CHECKED;
fed_status fedserver_sql_model_find(void *db, uint64_t task, fedserver_model_row *model,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_sql_delta_add(void *db, uint64_t task, uint32_t version, const uint8_t *part,
                                   size_t len, const uint64_t *kept, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_delta_prune(void *db, uint64_t task, uint32_t version,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_sql_delta_each(void *db, uint64_t task, uint32_t after, uint32_t last,
                                    fedserver_delta_visit visit, void *user,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_sql_delta_sum(void *db, uint64_t task, uint32_t after, uint32_t *count,
                                   uint64_t *bytes, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_keyframe_add(void *db, uint64_t task, const fedserver_keyframe *keyframe,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sql_keyframe_find(void *db, uint64_t task, uint32_t version,
                                       fedserver_keyframe *keyframe, float **values,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sql_keyframe_prune(void *db, uint64_t task, uint32_t version,
                                        fed_error *err) FED_CHECKED;
/** Read a blob that a row names. FED_EFORMAT: it is missing. bytes NULL: set only *len, which may
 * then be 0 for a missing blob. */
fed_status fedserver_sql_blob_named(void *db, uint64_t task, uint64_t digest, void **bytes,
                                    size_t *len, fed_error *err) FED_CHECKED;

fed_status fedserver_sql_piece_add(void *db, int64_t device, const fed_piece *piece,
                                   const uint8_t *data, size_t len, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_piece_find(void *db, int64_t device, fed_piece *piece, uint64_t *end,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_sql_piece_join(void *db, int64_t device, uint8_t *dst, size_t cap, size_t *len,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_sql_piece_clear(void *db, int64_t device, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_lease_prune(void *db, uint64_t task, uint32_t round,
                                     fed_error *err) FED_CHECKED;

fed_status fedserver_sql_audit_add(void *db, const fedserver_audit_entry *entry,
                                   fed_error *err) FED_CHECKED;
fed_status fedserver_sql_audit_each(void *db, int64_t since_ms, fedserver_audit_visit visit,
                                    void *user, fed_error *err) FED_CHECKED;

fed_status fedserver_sql_audit_tasks(void *db, int64_t *read, fedserver_audit_visit visit,
                                     void *user, fed_error *err) FED_CHECKED;

fed_status fedserver_sql_ledger_charge(void *db, uint64_t task, uint32_t round,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sql_ledger_each(void *db, uint64_t task, fedserver_ledger_visit visit,
                                     void *user, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_ledger_left(void *db, uint64_t task, const char *tag, uint32_t most,
                                     uint32_t round, uint32_t apart, uint64_t *count,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_sql_round_drop(void *db, uint64_t task, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_ledger_lose(void *db, uint64_t task, uint32_t count, uint32_t most,
                                     uint64_t *lost, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_noise_forget(void *db, uint64_t task, uint32_t after, uint32_t last,
                                      fed_error *err) FED_CHECKED;

fed_status fedserver_sql_outliers_count(void *db, uint64_t task, uint32_t round, double share,
                                        fed_error *err) FED_CHECKED;
fed_status fedserver_sql_outlier_add(void *db, uint64_t task, uint32_t round, int64_t device,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_sql_outliers_each(void *db, uint64_t task, uint32_t least,
                                       fedserver_outlier_visit visit, void *user,
                                       fed_error *err) FED_CHECKED;

fed_status fedserver_sql_decline_put(void *db, uint64_t task, int64_t device, const char *reason,
                                     int64_t now_ms, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_decline_each(void *db, uint64_t task, int64_t after_ms,
                                      fedserver_decline_visit visit, void *user,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sql_decline_forget(void *db, uint64_t task, fed_error *err) FED_CHECKED;
/** Set the entry's `reasons` to the most frequent ones of its task's declines after after_ms. */
fed_status fedserver_sql_decline_reasons(void *db, int64_t after_ms, fedserver_task_entry *entry,
                                         fed_error *err) FED_CHECKED;

/** Initializers of these functions for a fedserver_store. Each store adds its own functions. */
#define FEDSERVER_SQL_ROWS                                                                         \
    .token_add = fedserver_sql_token_add, .token_find = fedserver_sql_token_find,                  \
    .token_each = fedserver_sql_token_each, .token_withdraw = fedserver_sql_token_withdraw,        \
    .token_use = fedserver_sql_token_use, .pass_add = fedserver_sql_pass_add,                      \
    .pass_find = fedserver_sql_pass_find, .pass_use = fedserver_sql_pass_use,                      \
    .pass_end = fedserver_sql_pass_end, .device_add = fedserver_sql_device_add,                    \
    .opening_put = fedserver_sql_opening_put, .opening_find = fedserver_sql_opening_find,          \
    .opening_refuse = fedserver_sql_opening_refuse,                                                \
    .opening_refused = fedserver_sql_opening_refused,                                              \
    .opening_clear = fedserver_sql_opening_clear, .device_put = fedserver_sql_device_put,          \
    .device_lease = fedserver_sql_device_lease, .device_revoke = fedserver_sql_device_revoke,      \
    .device_name = fedserver_sql_device_name, .device_rename = fedserver_sql_device_rename,        \
    .device_renew = fedserver_sql_device_renew, .device_find = fedserver_sql_device_find,          \
    .device_each = fedserver_sql_device_each, .device_changes = fedserver_sql_device_changes,      \
    .device_newest = fedserver_sql_device_newest, .device_leased = fedserver_sql_device_leased,    \
    .device_page = fedserver_sql_device_page, .device_count = fedserver_sql_device_count,          \
    .task_add = fedserver_sql_task_add, .layout_put = fedserver_sql_layout_put,                    \
    .layout_find = fedserver_sql_layout_find, .task_find = fedserver_sql_task_find,                \
    .task_put = fedserver_sql_task_put, .task_each = fedserver_sql_task_each,                      \
    .task_describe = fedserver_sql_task_describe, .task_place = fedserver_sql_task_place,          \
    .task_renew = fedserver_sql_task_renew, .copied = fedserver_sql_copied,                        \
    .task_clear = fedserver_sql_task_clear, .decline_put = fedserver_sql_decline_put,              \
    .decline_each = fedserver_sql_decline_each, .decline_forget = fedserver_sql_decline_forget,    \
    .round_put = fedserver_sql_round_put, .round_each = fedserver_sql_round_each,                  \
    .piece_add = fedserver_sql_piece_add, .piece_find = fedserver_sql_piece_find,                  \
    .piece_join = fedserver_sql_piece_join, .piece_clear = fedserver_sql_piece_clear,              \
    .lease_prune = fedserver_sql_lease_prune, .audit_add = fedserver_sql_audit_add,                \
    .audit_each = fedserver_sql_audit_each, .audit_tasks = fedserver_sql_audit_tasks,              \
    .metric_put = fedserver_sql_metric_put, .model_put = fedserver_sql_model_put,                  \
    .model_find = fedserver_sql_model_find, .delta_add = fedserver_sql_delta_add,                  \
    .delta_prune = fedserver_sql_delta_prune, .delta_each = fedserver_sql_delta_each,              \
    .delta_sum = fedserver_sql_delta_sum, .keyframe_add = fedserver_sql_keyframe_add,              \
    .keyframe_find = fedserver_sql_keyframe_find, .keyframe_prune = fedserver_sql_keyframe_prune,  \
    .update_count = fedserver_sql_update_count, .own_put = fedserver_sql_own_put,                  \
    .own_each = fedserver_sql_own_each, .ledger_charge = fedserver_sql_ledger_charge,              \
    .ledger_each = fedserver_sql_ledger_each, .ledger_left = fedserver_sql_ledger_left,            \
    .round_drop = fedserver_sql_round_drop, .ledger_lose = fedserver_sql_ledger_lose,              \
    .noise_forget = fedserver_sql_noise_forget, .outliers_count = fedserver_sql_outliers_count,    \
    .outlier_add = fedserver_sql_outlier_add, .outliers_each = fedserver_sql_outliers_each

#endif
