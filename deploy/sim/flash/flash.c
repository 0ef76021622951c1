/* What the devices of a simulation keep: the stores of all of them, in one file. */
#include "deploy/sim/flash/flash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "deploy/sim/flash/flash_store.h"
#include "fed/clock.h"
#include "fed/file.h"

/* The one key whose values clients share. Which model it is, its record's head says: task, version
 * and digest (docs/durability.md). */
static const char shared_key[] = "model";
enum { SHARED_HEAD = 64 };

/* ---- Models ---- */

/** Let go of a model. */
static void model_leave(sim_flash *flash, sim_model *model) {
    pthread_mutex_lock(&flash->mutex);
    bool last = --model->holders == 0;
    if (last) {
        sim_model **at = &flash->models;
        while (*at != model) {
            at = &(*at)->next;
        }
        *at = model->next;
        flash->model_count--;
    }
    pthread_mutex_unlock(&flash->mutex);
    if (last) {
        sim_blocks_give_back(&flash->blocks, model->data);
        free(model);
    }
}

/** The model whose record begins so; len 0: of any length. NULL: there is none. Under the mutex. */
static sim_model *model_find(const sim_flash *flash, const void *head, size_t head_len,
                             size_t len) {
    sim_model *model = flash->models;
    while (model != NULL && ((len != 0 && model->len != len) || model->len < head_len ||
                             memcmp(model->data, head, head_len) != 0)) {
        model = model->next;
    }
    return model;
}

/** Likewise, with another holder. */
static sim_model *model_hold(sim_flash *flash, const void *head, size_t len) {
    pthread_mutex_lock(&flash->mutex);
    sim_model *model = model_find(flash, head, len, 0);
    if (model != NULL) {
        model->holders++;
    }
    pthread_mutex_unlock(&flash->mutex);
    return model;
}

static void model_add(sim_flash *flash, sim_model *model) {
    model->next = flash->models;
    flash->models = model;
    flash->model_count++;
}

/** The model of that record, which is in a block of its own: it is given back where the same model
 * is there. Another one of the same head, which nobody who checks digests makes, stays apart. */
static sim_model *model_of(sim_flash *flash, uint8_t *block, size_t len) {
    sim_model *own = malloc(sizeof *own);
    if (own == NULL) {
        return NULL;
    }
    *own = (sim_model){.data = block, .len = len, .holders = 1};
    const size_t head = len < SHARED_HEAD ? len : SHARED_HEAD;
    pthread_mutex_lock(&flash->mutex);
    sim_model *there = model_find(flash, block, head, len);
    if (there != NULL) {
        there->holders++;
    } else {
        model_add(flash, own);
    }
    pthread_mutex_unlock(&flash->mutex);
    if (there == NULL) {
        return own;
    }
    if (memcmp(there->data, block, len) == 0) {
        sim_blocks_give_back(&flash->blocks, block);
        free(own);
        return there;
    }
    model_leave(flash, there);
    pthread_mutex_lock(&flash->mutex);
    model_add(flash, own);
    pthread_mutex_unlock(&flash->mutex);
    return own;
}

/* ---- A client's values ---- */

static sim_value **find(sim_store *store, const char *key) {
    sim_value **at = &store->values;
    while (*at != NULL && strcmp((*at)->key, key) != 0) {
        at = &(*at)->next;
    }
    return at;
}

sim_value *sim_store_value(sim_store *store, const char *key) {
    sim_value **at = find(store, key);
    if (*at == NULL && strlen(key) < SIM_FLASH_KEY) {
        *at = calloc(1, sizeof **at);
        if (*at != NULL) {
            snprintf((*at)->key, sizeof(*at)->key, "%s", key);
        }
    }
    return *at;
}

/** Let go of what a value is. */
static void value_leave(sim_flash *flash, const sim_value *value) {
    if (value->model != NULL) {
        model_leave(flash, value->model);
    } else if (value->in_block) {
        sim_blocks_give_back(&flash->blocks, value->data);
    } else {
        free(value->data);
    }
}

static void value_set(sim_flash *flash, sim_value *value, uint8_t *data, size_t len, bool in_block,
                      sim_model *model) {
    value_leave(flash, value);
    value->data = data;
    value->len = len;
    value->in_block = in_block;
    value->model = model;
}

/** Something is about to change. */
static fed_status touch(sim_flash *flash, fed_error *err) {
    return flash->kept && atomic_load(&flash->synced) ? sim_index_spoil(flash, err) : FED_OK;
}

static fed_status no_room(const char *key, size_t len, fed_error *err) {
    return fed_fail(err, FED_ENOSPC,
                    "no room to store \"%s\" (%zu bytes): free some where the clients' stores are "
                    "(TMPDIR, unless they are kept)",
                    key, len);
}

static void *flash_room(void *user, size_t len) {
    sim_store *store = user;
    return touch(store->flash, NULL) == FED_OK ? sim_blocks_take(&store->flash->blocks, len, NULL)
                                               : NULL;
}

static void flash_leave(void *user, void *room) {
    sim_store *store = user;
    sim_blocks_give_back(&store->flash->blocks, room);
}

static fed_status flash_give(void *user, const char *key, void *room, size_t len, fed_error *err) {
    sim_store *store = user;
    sim_flash *flash = store->flash;
    FED_TRY(touch(flash, err));
    sim_value *value = sim_store_value(store, key);
    if (value == NULL) {
        return no_room(key, len, err);
    }
    sim_model *model = NULL;
    if (strcmp(key, shared_key) == 0) {
        model = model_of(flash, room, len);
        if (model == NULL) {
            return no_room(key, len, err);
        }
    }
    value_set(flash, value, model != NULL ? model->data : room, len, true, model);
    return FED_OK;
}

/** Into malloc's memory. One that is no longer than what was there always has its place. */
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
    value_set(store->flash, value, copy, len, false, NULL);
    return FED_OK;
}

static fed_status flash_put(void *user, const char *key, const void *data, size_t len,
                            fed_error *err) {
    sim_store *store = user;
    if (len <= SIM_FLASH_SMALL && strcmp(key, shared_key) != 0) {
        FED_TRY(touch(store->flash, err));
        return put_small(store, key, data, len, err);
    }
    void *room = flash_room(user, len);
    if (room == NULL) {
        return no_room(key, len, err);
    }
    memcpy(room, data, len);
    fed_status status = flash_give(user, key, room, len, err);
    if (status != FED_OK) {
        flash_leave(user, room);
    }
    return status;
}

static fed_status flash_lend(void *user, const char *key, const uint8_t **data, size_t *len,
                             fed_error *err) {
    const sim_value *value = *find(user, key);
    if (value == NULL || value->data == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "nothing is stored as \"%s\"", key);
    }
    *data = value->data;
    *len = value->len;
    return FED_OK;
}

static fed_status flash_get(void *user, const char *key, uint8_t **data, size_t *len,
                            fed_error *err) {
    const uint8_t *lent = NULL;
    size_t size = 0;
    FED_TRY(flash_lend(user, key, &lent, &size, err));
    uint8_t *copy = malloc(size + 1);
    FED_REQUIRE(copy != NULL, FED_ENOMEM);
    memcpy(copy, lent, size);
    *data = copy;
    *len = size;
    return FED_OK;
}

static fed_status flash_edit(void *user, const char *key, uint8_t **data, size_t *len,
                             fed_error *err) {
    sim_store *store = user;
    sim_value *value = *find(store, key);
    if (value == NULL || value->data == NULL || value->model != NULL) {
        return fed_fail(err, FED_ENOTFOUND, "nothing of this client alone is stored as \"%s\"",
                        key);
    }
    FED_TRY(touch(store->flash, err));
    *data = value->data;
    *len = value->len;
    return FED_OK;
}

static fed_status flash_adopt(void *user, const char *key, const void *head, size_t len) {
    sim_store *store = user;
    if (strcmp(key, shared_key) != 0) {
        return FED_ENOTFOUND;
    }
    sim_value *value = sim_store_value(store, key);
    sim_model *model = value != NULL ? model_hold(store->flash, head, len) : NULL;
    FED_REQUIRE(model != NULL, FED_ENOTFOUND);
    fed_status status = touch(store->flash, NULL);
    if (status != FED_OK) {
        model_leave(store->flash, model);
        return status;
    }
    value_set(store->flash, value, model->data, model->len, true, model);
    return FED_OK;
}

static fed_status flash_drop(void *user, const char *key, fed_error *err) {
    sim_store *store = user;
    sim_value **at = find(store, key), *value = *at;
    if (value == NULL) {
        return FED_OK;
    }
    FED_TRY(touch(store->flash, err));
    *at = value->next;
    value_leave(store->flash, value);
    free(value);
    return FED_OK;
}

static int64_t flash_unix_ms(void *user) {
    (void)user;
    return fed_clock_unix_ms();
}

static int64_t flash_monotonic_ms(void *user) {
    (void)user;
    return fed_clock_monotonic_ms();
}

void sim_flash_platform(sim_flash *flash, uint32_t k, fedclient_platform *platform) {
    static const fedclient_memory memory = {.room = flash_room,
                                            .leave = flash_leave,
                                            .give = flash_give,
                                            .lend = flash_lend,
                                            .edit = flash_edit,
                                            .adopt = flash_adopt};
    *platform = (fedclient_platform){.user = &flash->stores[k],
                                     .unix_ms = flash_unix_ms,
                                     .monotonic_ms = flash_monotonic_ms,
                                     .put = flash_put,
                                     .get = flash_get,
                                     .drop = flash_drop,
                                     .memory = &memory};
}

fed_status sim_flash_optimizer(sim_flash *flash, uint32_t k, size_t floats, float **state,
                               fed_error *err) {
    sim_store *store = &flash->stores[k];
    FED_TRY(touch(flash, err));
    if (store->optimizer == NULL || store->optimizer_floats != floats) {
        bool fresh = false;
        float *block = floats <= SIZE_MAX / 8
                           ? sim_blocks_take(&flash->blocks, floats * sizeof *block, &fresh)
                           : NULL;
        if (block == NULL) {
            return no_room("optimizer", floats * sizeof *block, err);
        }
        if (!fresh) {
            memset(block, 0, floats * sizeof *block);
        }
        sim_blocks_give_back(&flash->blocks, store->optimizer);
        store->optimizer = block;
        store->optimizer_floats = floats;
    }
    *state = store->optimizer;
    return FED_OK;
}

size_t sim_flash_models(sim_flash *flash) {
    pthread_mutex_lock(&flash->mutex);
    size_t count = flash->model_count;
    pthread_mutex_unlock(&flash->mutex);
    return count;
}

/* ---- Opening ---- */

static fed_status open_temporary(int *fd, fed_error *err) {
    char path[512];
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/fedsim-flash-XXXXXX", base != NULL ? base : "/tmp");
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

static fed_status open_file(sim_flash *flash, const char *path, bool resume, size_t memory,
                            fed_error *err) {
    int fd = -1;
    FED_TRY(path != NULL ? open_kept(path, resume, &fd, err) : open_temporary(&fd, err));
    FED_TRY(sim_blocks_open(&flash->blocks, fd, memory, err));
    if (resume) {
        return sim_index_load(flash, path, err);
    }
    return posix_fallocate(fd, 0, SIM_BLOCKS_PAGE) == 0
               ? FED_OK
               : fed_fail(err, FED_ENOSPC, "no room for the clients' stores on the disk");
}

fed_status sim_flash_open(const char *path, uint32_t clients, bool resume, size_t memory,
                          sim_flash **flash, fed_error *err) {
    if (resume && path == NULL) {
        return fed_fail(err, FED_EINVAL, "stores without a path can't be resumed");
    }
    sim_flash *fresh = calloc(1, sizeof *fresh);
    FED_REQUIRE(fresh != NULL, FED_ENOMEM);
    pthread_mutex_init(&fresh->mutex, NULL);
    fresh->clients = clients;
    fresh->kept = path != NULL;
    fresh->stores = calloc(clients + (size_t)1, sizeof *fresh->stores);
    fed_status status = fresh->stores != NULL ? FED_OK : FED_ENOMEM;
    for (uint32_t k = 0; k < clients && status == FED_OK; k++) {
        fresh->stores[k].flash = fresh;
    }
    if (status == FED_OK) {
        status = open_file(fresh, path, resume, memory, err);
    }
    if (status != FED_OK) {
        sim_flash_close(fresh);
        return status;
    }
    *flash = fresh;
    return FED_OK;
}

void sim_flash_close(sim_flash *flash) {
    if (flash == NULL) {
        return;
    }
    for (uint32_t k = 0; k < flash->clients && flash->stores != NULL; k++) {
        for (sim_value *value = flash->stores[k].values; value != NULL;) {
            sim_value *next = value->next;
            if (!value->in_block) {
                free(value->data);
            }
            free(value);
            value = next;
        }
    }
    while (flash->models != NULL) {
        sim_model *model = flash->models;
        flash->models = model->next;
        free(model);
    }
    free(flash->stores);
    sim_blocks_close(&flash->blocks);
    pthread_mutex_destroy(&flash->mutex);
    free(flash);
}
