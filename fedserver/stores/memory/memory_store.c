/*
 * The store in memory: for tests, for simulations, and to read beside store.h.
 *
 * A store is known by the name of the coordinator's directory, in which it keeps nothing. It
 * outlives its handles, so a coordinator can be closed and opened again, and it ends with its
 * process; `fedserver init` therefore refuses it. Several handles may be open. They and their
 * coordinators are one thread's.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fedserver/stores/memory/memory_tables.h"
#include "fedserver/stores/undone.h"

/* -- the store as a whole -- */

static fed_status store_exists(const char *directory, const char *where, fed_error *err) {
    (void)where;
    return fedserver_memory_shared_find(directory) != NULL
               ? FED_OK
               : fed_fail(err, FED_ENOTFOUND, "%s: there is no such store", directory);
}

static fed_status store_create(const char *directory, const char *where, fed_error *err) {
    memory_shared *shared;
    (void)where;
    return fedserver_memory_shared_make(directory, &shared, err);
}

static fed_status store_open(const char *directory, const char *where, void **db, fed_error *err) {
    memory_shared *shared = fedserver_memory_shared_find(directory);
    memory_db *made = NULL;
    (void)where;
    if (shared == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "%s: this process has no store of that name in memory",
                        directory);
    }
    FED_TRY(fedserver_memory_db_open(shared, &made, err));
    *db = made;
    return FED_OK;
}

static void store_close(void *db) {
    fedserver_memory_db_close(db);
}

static fed_status store_lock(void *db, fed_error *err) {
    return fedserver_memory_db_lock(db, err);
}

static long store_holder(void *db) {
    return fedserver_memory_db_locked(db) ? (long)getpid() : 0;
}

static fed_status store_copy(void *user, const char *directory, fed_error *err) {
    const memory_db *db = user;
    memory_shared *copy = fedserver_memory_shared_find(directory);
    assert(!db->writing); /* S12: copy what is committed */
    if (copy == NULL) {
        FED_TRY(fedserver_memory_shared_make(directory, &copy, err));
    }
    fedserver_memory_shared_copy(copy, db->shared);
    return FED_OK;
}

static fed_status store_check(void *db, fedserver_checker *checker, fed_error *err) {
    (void)db, (void)err;
    fedserver_check_say(checker, FEDSERVER_CHECKED, "S1: the rows are in this process's memory");
    return FED_OK;
}

static fed_status store_recover(void *db, fed_error *err) {
    (void)db, (void)err;
    return FED_OK;
}

static fed_status store_commit(void *db, fed_error *err) {
    return fedserver_memory_db_commit(db, err);
}

static void store_rollback(void *db) {
    fedserver_memory_db_rollback(db);
}

static bool store_writing(const void *db) {
    const memory_db *kept = db;
    return kept->writing || fedserver_undone(&kept->undone);
}

static fed_status store_changed(void *db, bool *changed, fed_error *err) {
    (void)err;
    *changed = fedserver_memory_db_changed(db);
    return FED_OK;
}

static fed_status store_shrink(void *db, bool *left, fed_error *err) {
    (void)db, (void)err;
    *left = false;
    return FED_OK;
}

/* -- tokens and passes -- */

/* Keys are ordered as the hashes' bytes. */
static memory_key hash_key(const uint8_t *hash) {
    memory_key key = {{0}};
    for (size_t k = 0; k < FED_SHA256_SIZE; k++) {
        key.part[k / 8] = key.part[k / 8] << 8 | hash[k];
    }
    return key;
}

static void key_hash(memory_key key, uint8_t hash[FED_SHA256_SIZE]) {
    for (size_t k = 0; k < FED_SHA256_SIZE; k++) {
        hash[k] = (uint8_t)(key.part[k / 8] >> (56 - 8 * (k % 8)));
    }
}

static fed_status token_add(void *db, const uint8_t *hash, const fedserver_token *token,
                            fed_error *err) {
    fedserver_token made = *token;
    made.used_ms = made.withdrawn_ms = 0;
    return fedserver_memory_put(db, MEMORY_TOKENS, hash_key(hash), true, &made, sizeof made, NULL,
                                0, err);
}

static fed_status token_find(void *db, const uint8_t *hash, fedserver_token *token,
                             fed_error *err) {
    const memory_row *row = fedserver_memory_find(db, MEMORY_TOKENS, hash_key(hash));
    if (row == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "no token has that hash");
    }
    *token = *HEAD(row, fedserver_token);
    return FED_OK;
}

/* In the order of their times; of one time, in the order of their hashes, which is the table's. */
static fed_status token_each(void *db, fedserver_token_visit visit, void *user, fed_error *err) {
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_TOKENS, MEMORY_ALL);
    const memory_row **rows = malloc((walk.end + 1) * sizeof(void *));
    fed_status status =
        rows != NULL ? FED_OK : fed_fail(err, FED_ENOMEM, "out of memory for a list of tokens");
    size_t count = 0;
    for (const memory_row *row;
         rows != NULL && (row = fedserver_memory_walk_next(&walk)) != NULL;) {
        size_t at = count++;
        const int64_t made_ms = HEAD(row, fedserver_token)->made_ms;
        for (; at > 0 && HEAD(rows[at - 1], fedserver_token)->made_ms > made_ms; at--) {
            rows[at] = rows[at - 1];
        }
        rows[at] = row;
    }
    for (size_t k = 0; k < count && status == FED_OK; k++) {
        uint8_t hash[FED_SHA256_SIZE];
        key_hash(rows[k]->key, hash);
        status = visit(user, hash, HEAD(rows[k], fedserver_token), err);
    }
    fedserver_memory_walk_end(&walk);
    free(rows);
    return status;
}

/* The row of an unused token, to be changed. */
static fed_status edit_token(memory_db *db, const uint8_t *hash, fedserver_token **token,
                             fed_error *err) {
    const memory_row *row = fedserver_memory_find(db, MEMORY_TOKENS, hash_key(hash));
    const fedserver_token *kept = row != NULL ? HEAD(row, fedserver_token) : NULL;
    void *bytes = NULL;
    FED_TRY(fedserver_undone_tell(&db->undone, err));
    if (kept == NULL || kept->used_ms != 0 || kept->withdrawn_ms != 0) {
        return fed_fail(err, FED_ENOTFOUND, "no unused token has that hash");
    }
    FED_TRY(fedserver_memory_edit(db, MEMORY_TOKENS, row->key, &bytes, err));
    *token = bytes;
    return FED_OK;
}

static fed_status token_withdraw(void *db, const uint8_t *hash, int64_t now_ms, fed_error *err) {
    fedserver_token *token = NULL;
    FED_TRY(edit_token(db, hash, &token, err));
    token->withdrawn_ms = now_ms;
    return FED_OK;
}

static fed_status token_use(void *db, const uint8_t *hash, int64_t now_ms, fed_error *err) {
    fedserver_token *token = NULL;
    FED_TRY(edit_token(db, hash, &token, err));
    token->used_ms = now_ms;
    return FED_OK;
}

static fed_status pass_add(void *db, const uint8_t *hash, const fedserver_pass *pass,
                           fed_error *err) {
    fedserver_pass made = *pass;
    made.used_ms = 0;
    return fedserver_memory_put(db, MEMORY_PASSES, hash_key(hash), true, &made, sizeof made, NULL,
                                0, err);
}

static fed_status pass_find(void *db, const uint8_t *hash, fedserver_pass *pass, fed_error *err) {
    const memory_row *row = fedserver_memory_find(db, MEMORY_PASSES, hash_key(hash));
    if (row == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "no pass has that hash");
    }
    *pass = *HEAD(row, fedserver_pass);
    return FED_OK;
}

static fed_status pass_use(void *db, const uint8_t *hash, int64_t now_ms, fed_error *err) {
    void *bytes = NULL;
    FED_TRY(fedserver_memory_edit(db, MEMORY_PASSES, hash_key(hash), &bytes, err));
    ((fedserver_pass *)bytes)->used_ms = now_ms;
    return FED_OK;
}

static fed_status pass_end(void *db, int64_t until_ms, fed_error *err) {
    const memory_row *row;
    fed_status status = FED_OK;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_PASSES, MEMORY_ALL);
    while (status == FED_OK && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        if (HEAD(row, fedserver_pass)->expires_ms <= until_ms) {
            status = fedserver_memory_drop(db, MEMORY_PASSES, row->key, row->key, err);
        }
    }
    fedserver_memory_walk_end(&walk);
    return status;
}

/* -- devices -- */

const fedserver_device *fedserver_memory_device(const memory_db *db, int64_t id) {
    const memory_row *row = fedserver_memory_find(db, MEMORY_DEVICES, MEMORY_KEY((uint64_t)id));
    return row != NULL ? HEAD(row, fedserver_device) : NULL;
}

static const fedserver_device *device_called(const memory_db *db, const uint8_t *fingerprint) {
    const memory_row *row;
    const fedserver_device *found = NULL;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_DEVICES, MEMORY_ALL);
    while (found == NULL && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        const fedserver_device *one = HEAD(row, fedserver_device);
        found = memcmp(one->fingerprint, fingerprint, FED_SHA256_SIZE) == 0 ? one : NULL;
    }
    fedserver_memory_walk_end(&walk);
    return found;
}

/* One more than the number of the newest change. */
static int64_t next_change(const memory_db *db) {
    const memory_row *row;
    int64_t newest = 0;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_DEVICES, MEMORY_ALL);
    while ((row = fedserver_memory_walk_next(&walk)) != NULL) {
        const int64_t change = HEAD(row, fedserver_device)->change;
        newest = change > newest ? change : newest;
    }
    fedserver_memory_walk_end(&walk);
    return newest + 1;
}

/* Set what store.h says is not stored. */
static void forget_unstored(fedserver_device *device) {
    device->unsaved = false;
    device->checkin_ms = 0;
    device->declined_task = 0;
}

static fed_status device_add(void *db, fedserver_device *device, fed_error *err) {
    fedserver_device made = *device;
    made.id = (int64_t)fedserver_memory_next(db, MEMORY_DEVICES);
    made.change = next_change(db);
    forget_unstored(&made);
    if (device_called(db, made.fingerprint) != NULL) {
        fed_error why = {0};
        return fedserver_memory_note(
            db, fed_fail(&why, FED_EIO, "a device has that fingerprint already"), &why, err);
    }
    FED_TRY(fedserver_memory_put(db, MEMORY_DEVICES, MEMORY_KEY((uint64_t)made.id), true, &made,
                                 sizeof made, NULL, 0, err));
    device->id = made.id;
    return FED_OK;
}

static fed_status edit_device(memory_db *db, int64_t id, fedserver_device **device,
                              fed_error *err) {
    void *bytes = NULL;
    FED_TRY(fedserver_memory_edit(db, MEMORY_DEVICES, MEMORY_KEY((uint64_t)id), &bytes, err));
    *device = bytes;
    return FED_OK;
}

/* Keep the identity that the other functions have written. */
static fed_status device_put(void *db, const fedserver_device *device, fed_error *err) {
    fedserver_device *kept = NULL;
    FED_TRY(edit_device(db, device->id, &kept, err));
    const fedserver_device before = *kept;
    *kept = *device;
    kept->change = before.change;
    memcpy(kept->fingerprint, before.fingerprint, sizeof kept->fingerprint);
    memcpy(kept->tag, before.tag, sizeof kept->tag);
    memcpy(kept->name, before.name, sizeof kept->name);
    kept->enrolled_ms = before.enrolled_ms;
    kept->expires_ms = before.expires_ms;
    kept->revoked_ms = before.revoked_ms;
    kept->role = before.role;
    forget_unstored(kept);
    return FED_OK;
}

/* The device's row, whose identity is to be changed at once. */
static fed_status change_device(memory_db *db, int64_t id, fedserver_device **device,
                                fed_error *err) {
    const int64_t change = next_change(db);
    FED_TRY(edit_device(db, id, device, err));
    (*device)->change = change;
    return FED_OK;
}

static fed_status device_revoke(void *db, int64_t id, int64_t now_ms, fed_error *err) {
    fedserver_device *kept = NULL;
    FED_TRY(change_device(db, id, &kept, err));
    kept->revoked_ms = kept->revoked_ms != 0 ? kept->revoked_ms : now_ms;
    return FED_OK;
}

static fed_status device_name(void *db, int64_t id, const uint8_t *fingerprint, fed_error *err) {
    fedserver_device *kept = NULL;
    FED_TRY(change_device(db, id, &kept, err));
    memcpy(kept->fingerprint, fingerprint, sizeof kept->fingerprint);
    return FED_OK;
}

static fed_status device_rename(void *db, int64_t id, const char *name, fed_error *err) {
    fedserver_device *kept = NULL;
    FED_TRY(change_device(db, id, &kept, err));
    snprintf(kept->name, sizeof kept->name, "%s", name);
    return FED_OK;
}

static fed_status device_renew(void *db, int64_t id, int64_t expires_ms, fed_error *err) {
    fedserver_device *kept = NULL;
    FED_TRY(change_device(db, id, &kept, err));
    kept->expires_ms = expires_ms;
    return FED_OK;
}

static fed_status device_find(void *db, const uint8_t *fingerprint, fedserver_device *device,
                              fed_error *err) {
    const fedserver_device *found = device_called(db, fingerprint);
    if (found == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "no device has that fingerprint");
    }
    *device = *found;
    return FED_OK;
}

static fed_status device_page(void *db, uint64_t task, int64_t after, uint32_t limit,
                              fedserver_device_visit visit, void *user, fed_error *err) {
    const memory_row *row;
    fed_status status = FED_OK;
    memory_walk walk = fedserver_memory_walk_begin(
        db, MEMORY_DEVICES, MEMORY_KEY((uint64_t)after + 1), MEMORY_KEY(UINT64_MAX));
    while (status == FED_OK && limit-- > 0 && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        fedserver_device device = *HEAD(row, fedserver_device);
        const memory_key decline = MEMORY_KEY(task, (uint64_t)device.id);
        device.declined_task =
            fedserver_memory_find(db, MEMORY_DECLINES, decline) != NULL ? task : 0;
        status = visit(user, &device, err);
    }
    fedserver_memory_walk_end(&walk);
    return status;
}

static fed_status device_each(void *db, fedserver_device_visit visit, void *user, fed_error *err) {
    return device_page(db, 0, 0, UINT32_MAX, visit, user, err);
}

/* The device with the first change after that one; NULL: there is none. */
static const fedserver_device *changed_next(const memory_db *db, int64_t after) {
    const memory_row *row;
    const fedserver_device *next = NULL;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_DEVICES, MEMORY_ALL);
    while ((row = fedserver_memory_walk_next(&walk)) != NULL) {
        const fedserver_device *one = HEAD(row, fedserver_device);
        next = one->change > after && (next == NULL || one->change < next->change) ? one : next;
    }
    fedserver_memory_walk_end(&walk);
    return next;
}

static fed_status device_changes(void *db, int64_t after, fedserver_device_visit visit, void *user,
                                 fed_error *err) {
    const fedserver_device *next;
    while ((next = changed_next(db, after)) != NULL) {
        const fedserver_device device = *next;
        FED_TRY(visit(user, &device, err));
        after = device.change;
    }
    return FED_OK;
}

static fed_status device_newest(void *db, int64_t *change, fed_error *err) {
    (void)err;
    *change = next_change(db) - 1;
    return FED_OK;
}

static fed_status device_leased(void *db, uint64_t task, uint32_t round,
                                fedserver_device_visit visit, void *user, fed_error *err) {
    const memory_row *row;
    fed_status status = FED_OK;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_DEVICES, MEMORY_ALL);
    while (status == FED_OK && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        const fedserver_device device = *HEAD(row, fedserver_device);
        if (device.lease_task == task && device.lease_round >= round &&
            device.lease != device.counted_lease) {
            status = visit(user, &device, err);
        }
    }
    fedserver_memory_walk_end(&walk);
    return status;
}

static fed_status device_count(void *db, uint64_t *count, fed_error *err) {
    (void)err;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_DEVICES, MEMORY_ALL);
    *count = walk.end;
    fedserver_memory_walk_end(&walk);
    return FED_OK;
}

static fed_status decline_put(void *db, uint64_t task, int64_t device, const char *reason,
                              int64_t now_ms, fed_error *err) {
    const memory_decline head = {.at_ms = now_ms};
    return fedserver_memory_put(db, MEMORY_DECLINES, MEMORY_KEY(task, (uint64_t)device), false,
                                &head, sizeof head, reason, strlen(reason) + 1, err);
}

static fed_status decline_each(void *db, uint64_t task, int64_t after_ms,
                               fedserver_decline_visit visit, void *user, fed_error *err) {
    const memory_row *row;
    fed_status status = FED_OK;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_DECLINES, MEMORY_OF(task));
    while (status == FED_OK && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        const memory_decline *head = HEAD(row, memory_decline);
        const fedserver_device *device = fedserver_memory_device(db, (int64_t)row->key.part[1]);
        if (device != NULL && head->at_ms > after_ms) {
            const fedserver_decline decline = {.device = device->id,
                                               .revoked = device->revoked_ms != 0,
                                               .fingerprint = device->fingerprint,
                                               .reason = (const char *)(head + 1),
                                               .at_ms = head->at_ms};
            status = visit(user, &decline, err);
        }
    }
    fedserver_memory_walk_end(&walk);
    return status;
}

static fed_status decline_forget(void *db, uint64_t task, fed_error *err) {
    return fedserver_memory_drop(db, MEMORY_DECLINES, MEMORY_OF(task), err);
}

/* -- the audit log -- */

static fed_status audit_add(void *db, const fedserver_audit_entry *entry, fed_error *err) {
    const uint64_t line = fedserver_memory_next(db, MEMORY_AUDIT);
    FED_TRY(fedserver_memory_put(db, MEMORY_AUDIT, MEMORY_KEY(line), true, entry, sizeof *entry,
                                 NULL, 0, err));
    return line > FEDSERVER_AUDIT_LINES
               ? fedserver_memory_drop(db, MEMORY_AUDIT, MEMORY_KEY(0),
                                       MEMORY_KEY(line - FEDSERVER_AUDIT_LINES), err)
               : FED_OK;
}

static fed_status audit_each(void *db, int64_t since_ms, fedserver_audit_visit visit, void *user,
                             fed_error *err) {
    const memory_row *row;
    fed_status status = FED_OK;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_AUDIT, MEMORY_ALL);
    while (status == FED_OK && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        const fedserver_audit_entry *entry = HEAD(row, fedserver_audit_entry);
        status = entry->at_ms >= since_ms ? visit(user, entry, err) : FED_OK;
    }
    fedserver_memory_walk_end(&walk);
    return status;
}

extern const fedserver_store fedserver_store_memory; /* stores.def declares it to other files */

const fedserver_store fedserver_store_memory = {
    .name = "memory",
    .in_process = true,
    .exists = store_exists,
    .create = store_create,
    .open = store_open,
    .close = store_close,
    .lock = store_lock,
    .holder = store_holder,
    .copy = store_copy,
    .check = store_check,
    .recover = store_recover,
    .commit = store_commit,
    .rollback = store_rollback,
    .writing = store_writing,
    .changed = store_changed,
    .token_add = token_add,
    .token_find = token_find,
    .token_each = token_each,
    .token_withdraw = token_withdraw,
    .token_use = token_use,
    .pass_add = pass_add,
    .pass_find = pass_find,
    .pass_use = pass_use,
    .pass_end = pass_end,
    .device_add = device_add,
    .device_put = device_put,
    .device_revoke = device_revoke,
    .device_name = device_name,
    .device_rename = device_rename,
    .device_renew = device_renew,
    .device_find = device_find,
    .device_lease = device_put,
    .device_newest = device_newest,
    .device_leased = device_leased,
    .device_each = device_each,
    .device_changes = device_changes,
    .device_page = device_page,
    .device_count = device_count,
    .task_add = fedserver_memory_task_add,
    .task_find = fedserver_memory_task_find,
    .task_put = fedserver_memory_task_put,
    .task_each = fedserver_memory_task_each,
    .task_place = fedserver_memory_task_place,
    .task_clear = fedserver_memory_task_clear,
    .shrink = store_shrink,
    .decline_put = decline_put,
    .decline_each = decline_each,
    .decline_forget = decline_forget,
    .model_put = fedserver_memory_model_put,
    .model_find = fedserver_memory_model_find,
    .delta_add = fedserver_memory_delta_add,
    .delta_prune = fedserver_memory_delta_prune,
    .delta_each = fedserver_memory_delta_each,
    .delta_sum = fedserver_memory_delta_sum,
    .keyframe_add = fedserver_memory_keyframe_add,
    .keyframe_find = fedserver_memory_keyframe_find,
    .keyframe_prune = fedserver_memory_keyframe_prune,
    .round_put = fedserver_memory_round_put,
    .round_each = fedserver_memory_round_each,
    .update_add = fedserver_memory_update_add,
    .update_each = fedserver_memory_update_each,
    .update_count = fedserver_memory_update_count,
    .update_clear = fedserver_memory_update_clear,
    .piece_add = fedserver_memory_piece_add,
    .piece_find = fedserver_memory_piece_find,
    .piece_join = fedserver_memory_piece_join,
    .piece_clear = fedserver_memory_piece_clear,
    .lease_prune = fedserver_memory_lease_prune,
    .audit_add = audit_add,
    .audit_each = audit_each,
    .metric_put = fedserver_memory_metric_put,
    .own_put = fedserver_memory_own_put,
    .own_each = fedserver_memory_own_each,
};
