/* What the clients of a simulation keep: the stores of all of them, in memory and one file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/stores/client_stores.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "deploy/sim/stores/store_index.h"
#include "fed/clock.h"
#include "fed/file.h"

/** Something in the stores is about to change. */
static fed_status touch(sim_stores *stores, fed_error *err) {
    return stores->kept && atomic_load(&stores->synced) ? sim_index_spoil(stores, err) : FED_OK;
}

static fed_status no_room(const char *key, size_t len, fed_error *err) {
    return fed_fail(err, FED_ENOSPC,
                    "no room to store \"%s\" (%zu bytes): free some where the clients' stores are "
                    "(TMPDIR, unless they are kept)",
                    key, len);
}

static void *store_room(void *user, size_t len) {
    sim_store *store = user;
    return touch(store->stores, NULL) == FED_OK ? sim_blocks_take(&store->stores->blocks, len, NULL)
                                                : NULL;
}

static void store_leave(void *user, void *room) {
    sim_store *store = user;
    sim_blocks_give_back(&store->stores->blocks, room);
}

static fed_status store_give(void *user, const char *key, void *room, size_t len, fed_error *err) {
    sim_store *store = user;
    sim_stores *stores = store->stores;
    FED_TRY(touch(stores, err));
    sim_value *value = sim_store_value(store, key);
    if (value == NULL) {
        return no_room(key, len, err);
    }
    sim_model *model = NULL;
    if (sim_key_is_shared(key)) {
        model = sim_model_of(stores, room, len);
        if (model == NULL) {
            return no_room(key, len, err);
        }
    }
    sim_value_set(stores, value, model != NULL ? model->data : room, len, true, model);
    return FED_OK;
}

/** Put a small value into malloc's memory. Without memory, one that is no longer than the value
 * before it takes its bytes. */
static fed_status put_small(sim_store *store, const char *key, const void *data, size_t len,
                            fed_error *err) {
    sim_value *value = sim_store_value(store, key);
    uint8_t *copy = value != NULL ? malloc(len + 1) : NULL;
    if (copy == NULL && value != NULL && len <= value->len && value->data != NULL) {
        memmove(value->data, data, len);
        value->len = len;
        return FED_OK;
    }
    if (copy == NULL) {
        return no_room(key, len, err);
    }
    if (len > 0) {
        memcpy(copy, data, len);
    }
    sim_value_set(store->stores, value, copy, len, false, NULL);
    return FED_OK;
}

static fed_status store_put(void *user, const char *key, const void *data, size_t len,
                            fed_error *err) {
    sim_store *store = user;
    if (len <= SIM_STORE_SMALL && !sim_key_is_shared(key)) {
        FED_TRY(touch(store->stores, err));
        return put_small(store, key, data, len, err);
    }
    void *room = store_room(user, len);
    if (room == NULL) {
        return no_room(key, len, err);
    }
    memcpy(room, data, len);
    fed_status status = store_give(user, key, room, len, err);
    if (status != FED_OK) {
        store_leave(user, room);
    }
    return status;
}

static fed_status store_lend(void *user, const char *key, const uint8_t **data, size_t *len,
                             fed_error *err) {
    const sim_value *value = *sim_store_find(user, key);
    if (value == NULL || value->data == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "nothing is stored as \"%s\"", key);
    }
    *data = value->data;
    *len = value->len;
    return FED_OK;
}

static fed_status store_get(void *user, const char *key, uint8_t **data, size_t *len,
                            fed_error *err) {
    const uint8_t *lent = NULL;
    size_t size = 0;
    FED_TRY(store_lend(user, key, &lent, &size, err));
    uint8_t *copy = malloc(size + 1);
    FED_REQUIRE(copy != NULL, FED_ENOMEM);
    memcpy(copy, lent, size);
    *data = copy;
    *len = size;
    return FED_OK;
}

static fed_status store_edit(void *user, const char *key, uint8_t **data, size_t *len,
                             fed_error *err) {
    sim_store *store = user;
    sim_value *value = *sim_store_find(store, key);
    if (value == NULL || value->data == NULL || value->model != NULL) {
        return fed_fail(err, FED_ENOTFOUND, "nothing of this client alone is stored as \"%s\"",
                        key);
    }
    FED_TRY(touch(store->stores, err));
    *data = value->data;
    *len = value->len;
    return FED_OK;
}

static fed_status store_adopt(void *user, const char *key, const void *head, size_t len) {
    sim_store *store = user;
    if (!sim_key_is_shared(key)) {
        return FED_ENOTFOUND;
    }
    sim_value *value = sim_store_value(store, key);
    sim_model *model = value != NULL ? sim_model_hold(store->stores, head, len) : NULL;
    FED_REQUIRE(model != NULL, FED_ENOTFOUND);
    fed_status status = touch(store->stores, NULL);
    if (status != FED_OK) {
        sim_model_leave(store->stores, model);
        return status;
    }
    sim_value_set(store->stores, value, model->data, model->len, true, model);
    return FED_OK;
}

static fed_status store_drop(void *user, const char *key, fed_error *err) {
    sim_store *store = user;
    sim_value **at = sim_store_find(store, key), *value = *at;
    if (value == NULL) {
        return FED_OK;
    }
    FED_TRY(touch(store->stores, err));
    *at = value->next;
    sim_value_leave(store->stores, value);
    free(value);
    return FED_OK;
}

static int64_t store_unix_ms(void *user) {
    (void)user;
    return fed_clock_unix_ms();
}

static int64_t store_monotonic_ms(void *user) {
    (void)user;
    return fed_clock_monotonic_ms();
}

void sim_stores_platform(sim_stores *stores, uint32_t k, fedclient_platform *platform) {
    static const fedclient_memory memory = {.room = store_room,
                                            .leave = store_leave,
                                            .give = store_give,
                                            .lend = store_lend,
                                            .edit = store_edit,
                                            .adopt = store_adopt};
    *platform = (fedclient_platform){.user = &stores->store[k],
                                     .unix_ms = store_unix_ms,
                                     .monotonic_ms = store_monotonic_ms,
                                     .put = store_put,
                                     .get = store_get,
                                     .drop = store_drop,
                                     .memory = &memory};
}

fed_status sim_stores_optimizer(sim_stores *stores, uint32_t k, size_t floats, float **state,
                                fed_error *err) {
    sim_store *store = &stores->store[k];
    FED_TRY(touch(stores, err));
    if (store->optimizer == NULL || store->optimizer_floats != floats) {
        bool fresh = false;
        float *block = floats <= SIZE_MAX / 8
                           ? sim_blocks_take(&stores->blocks, floats * sizeof *block, &fresh)
                           : NULL;
        if (block == NULL) {
            return no_room("optimizer", floats * sizeof *block, err);
        }
        if (!fresh) {
            memset(block, 0, floats * sizeof *block);
        }
        sim_blocks_give_back(&stores->blocks, store->optimizer);
        store->optimizer = block;
        store->optimizer_floats = floats;
    }
    *state = store->optimizer;
    return FED_OK;
}

fed_status sim_stores_sync(sim_stores *stores, fed_error *err) {
    return stores->kept && !atomic_load(&stores->synced) ? sim_index_save(stores, err) : FED_OK;
}

size_t sim_stores_models(sim_stores *stores) {
    pthread_mutex_lock(&stores->mutex);
    size_t count = stores->model_count;
    pthread_mutex_unlock(&stores->mutex);
    return count;
}

/* ---- Opening ---- */

static fed_status open_temporary(int *fd, fed_error *err) {
    char path[512];
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/fedsim-stores-XXXXXX", base != NULL ? base : "/tmp");
    *fd = mkstemp(path);
    if (*fd < 0) {
        return fed_fail(err, FED_EIO, "%s: can't make a temporary file: %s; set TMPDIR", path,
                        strerror(errno));
    }
    (void)unlink(path);
    return FED_OK;
}

/** Nobody else has it, and it is new unless we go on with it. */
static fed_status open_kept(const char *path, bool resume, int *fd, fed_error *err) {
    int opened = open(path, O_RDWR | O_CLOEXEC | (resume ? 0 : O_CREAT), 0600);
    if (opened < 0) {
        return fed_file_fail(err, "open", path);
    }
    if (flock(opened, LOCK_EX | LOCK_NB) != 0) {
        close(opened);
        return fed_fail(err, FED_EBUSY, "%s is in use by another simulation", path);
    }
    if (!resume && ftruncate(opened, 0) != 0) {
        fed_status status = fed_file_fail(err, "empty", path);
        close(opened);
        return status;
    }
    *fd = opened;
    return FED_OK;
}

static fed_status open_file(sim_stores *stores, const char *path, bool resume, size_t memory,
                            fed_error *err) {
    int fd = -1;
    FED_TRY(path != NULL ? open_kept(path, resume, &fd, err) : open_temporary(&fd, err));
    FED_TRY(sim_blocks_open(&stores->blocks, fd, memory, err));
    if (resume) {
        return sim_index_load(stores, path, err);
    }
    return posix_fallocate(fd, 0, SIM_BLOCKS_PAGE) == 0
               ? FED_OK
               : fed_fail(err, FED_ENOSPC, "no room for the clients' stores on the disk");
}

fed_status sim_stores_open(const char *path, uint32_t clients, bool resume, size_t memory,
                           sim_stores **stores, fed_error *err) {
    if (resume && path == NULL) {
        return fed_fail(err, FED_EINVAL, "stores without a path can't be resumed");
    }
    sim_stores *fresh = calloc(1, sizeof *fresh);
    FED_REQUIRE(fresh != NULL, FED_ENOMEM);
    pthread_mutex_init(&fresh->mutex, NULL);
    fresh->clients = clients;
    fresh->kept = path != NULL;
    fresh->store = calloc(clients + (size_t)1, sizeof *fresh->store);
    fed_status status = fresh->store != NULL ? FED_OK : FED_ENOMEM;
    for (uint32_t k = 0; k < clients && status == FED_OK; k++) {
        fresh->store[k].stores = fresh;
    }
    if (status == FED_OK) {
        status = open_file(fresh, path, resume, memory, err);
    }
    if (status != FED_OK) {
        sim_stores_close(fresh);
        return status;
    }
    *stores = fresh;
    return FED_OK;
}

void sim_stores_close(sim_stores *stores) {
    if (stores == NULL) {
        return;
    }
    for (uint32_t k = 0; k < stores->clients && stores->store != NULL; k++) {
        for (sim_value *value = stores->store[k].values; value != NULL;) {
            sim_value *next = value->next;
            if (!value->in_block) {
                free(value->data);
            }
            free(value);
            value = next;
        }
    }
    while (stores->models != NULL) {
        sim_model *model = stores->models;
        stores->models = model->next;
        free(model);
    }
    free(stores->store);
    sim_blocks_close(&stores->blocks);
    pthread_mutex_destroy(&stores->mutex);
    free(stores);
}
