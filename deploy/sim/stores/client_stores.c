/* The stores of all clients of a simulation, together in memory and in one file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/stores/client_stores.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deploy/sim/stores/blocks.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed/hash.h"

/* The file has a page with its head, then blocks. The first block has two offsets for each client:
 * the offset of the client's model, and the offset of the first block in a list of the client's
 * other values. Each value's block has its key. Models are blocks that clients share, and have a
 * list of their own. The file's bytes are as in memory, so only a machine of the same kind can read
 * it. */
enum { FORMAT = 2 };

static const char magic[8] = "FEDflash";

/** The head, in the first page. It is all 0 while the file does not have all values. */
typedef struct head {
    char magic[8];
    uint32_t format, clients;
    uint64_t end, models; /* where the blocks end; offset of the first model */
    uint64_t digest;      /* digest of the members above */
} head;

/** Offsets of a client's first value and of its model; 0: none. */
typedef struct client_values {
    uint64_t values, model;
} client_values;

typedef struct sim_store {
    sim_stores *stores;
    client_values *has;
} sim_store;

struct sim_stores {
    sim_blocks blocks;
    uint32_t clients;
    sim_store *store; /* [clients] */
    pthread_mutex_t mutex;
    uint64_t models;    /* first of the list; the mutex guards the list and the models' holders */
    bool kept;          /* the file has a path, and stays after the run */
    atomic_bool synced; /* the file has all values: nothing has changed since sim_stores_sync */
};

/** Clear the file's head on the disk, so that no run is resumed from it, even after a crash. */
static fed_status spoil(sim_stores *stores, fed_error *err) {
    pthread_mutex_lock(&stores->mutex);
    bool done = true;
    if (atomic_load(&stores->synced)) {
        memset(stores->blocks.base, 0, SIM_BLOCKS_PAGE);
        done = msync(stores->blocks.base, SIM_BLOCKS_PAGE, MS_SYNC) == 0;
        atomic_store(&stores->synced, !done);
    }
    pthread_mutex_unlock(&stores->mutex);
    return done ? FED_OK : fed_file_fail(err, "change", "the file of the clients' stores");
}

/** Call this before a change in the stores, after which the file no longer matches them. */
static fed_status touch(sim_stores *stores, fed_error *err) {
    return stores->kept && atomic_load(&stores->synced) ? spoil(stores, err) : FED_OK;
}

static fed_status save(sim_stores *stores) {
    head h = {.format = FORMAT,
              .clients = stores->clients,
              .end = stores->blocks.end,
              .models = stores->models};
    memcpy(h.magic, magic, sizeof magic);
    h.digest = fed_digest_bytes(&h, offsetof(head, digest));
    FED_TRY(sim_blocks_save(&stores->blocks)); /* first, as the head refers to blocks */
    memcpy(stores->blocks.base, &h, sizeof h);
    return msync(stores->blocks.base, SIM_BLOCKS_PAGE, MS_SYNC) == 0 ? FED_OK : FED_EIO;
}

fed_status sim_stores_sync(sim_stores *stores, fed_error *err) {
    if (!stores->kept || atomic_load(&stores->synced)) {
        return FED_OK;
    }
    if (save(stores) != FED_OK) {
        return fed_file_fail(err, "write", "the file of the clients' stores");
    }
    atomic_store(&stores->synced, true);
    return FED_OK;
}

static fed_status check_head(const head *h, const char *path, uint32_t clients, fed_error *err) {
    static const head in_use;
    if (memcmp(h, &in_use, sizeof in_use) == 0) {
        return fed_fail(err, FED_EFORMAT,
                        "%s is of a run that was killed in the middle; begin that run again", path);
    }
    if (memcmp(h->magic, magic, sizeof magic) != 0) {
        return fed_fail(err, FED_EFORMAT, "%s is not a file of clients' stores that fedsim wrote",
                        path);
    }
    if (h->format != FORMAT) {
        return fed_fail(
            err, FED_EVERSION,
            "%s has format %u, and this build reads format %d; use the release that wrote the file",
            path, h->format, FORMAT);
    }
    if (h->digest != fed_digest_bytes(h, offsetof(head, digest))) {
        return fed_fail(err, FED_EFORMAT, "%s is damaged; begin the run again", path);
    }
    if (h->clients != clients) {
        return fed_fail(err, FED_EINVAL,
                        "%s holds %u clients, not %u; resume with that number of clients", path,
                        h->clients, clients);
    }
    return FED_OK;
}

static fed_status load(sim_stores *stores, const char *path, fed_error *err) {
    struct stat about;
    if (fstat(stores->blocks.fd, &about) != 0) {
        return fed_file_fail(err, "read", path);
    }
    if (about.st_size < SIM_BLOCKS_PAGE) {
        return fed_fail(err, FED_EFORMAT, "%s is not a file of clients' stores that fedsim wrote",
                        path);
    }
    const head h = *(const head *)(const void *)stores->blocks.base;
    FED_TRY(check_head(&h, path, stores->clients, err));
    if (h.end > (uint64_t)about.st_size || h.end > stores->blocks.limit) {
        return fed_fail(err, FED_EFORMAT, "%s is damaged; begin the run again", path);
    }
    fed_status status = sim_blocks_load(&stores->blocks, h.end);
    if (status != FED_OK) {
        return status == FED_EIO
                   ? fed_file_fail(err, "read", path)
                   : fed_fail(err, status, "%s is damaged; begin the run again", path);
    }
    stores->models = h.models;
    atomic_store(&stores->synced, true);
    return FED_OK;
}

/* The head of a model's record has its task, version and digest (docs/durability.md). */
enum { SHARED_HEAD = 64 };

static bool key_is_shared(const char *key) {
    return strcmp(key, "model") == 0;
}

/** Find the model whose record begins with these bytes, and add a holder to it. The record has
 * `len` bytes, or any length if len is 0. NULL: there is none. The caller holds the mutex. */
static sim_block *model_hold(sim_stores *stores, const void *begin, size_t begin_len, size_t len) {
    for (uint64_t at = stores->models; at != 0;) {
        sim_block *model = sim_blocks_at(&stores->blocks, at);
        if ((len == 0 || model->len == len) && model->len >= begin_len &&
            memcmp(model->data, begin, begin_len) == 0) {
            model->holders++;
            return model;
        }
        at = model->next;
    }
    return NULL;
}

static void model_add(sim_stores *stores, sim_block *model) {
    model->next = stores->models;
    stores->models = sim_blocks_offset(&stores->blocks, model);
}

static void model_leave(sim_stores *stores, sim_block *model) {
    pthread_mutex_lock(&stores->mutex);
    bool last = --model->holders == 0;
    if (last) {
        uint64_t *at = &stores->models;
        while (sim_blocks_at(&stores->blocks, *at) != model) {
            at = &sim_blocks_at(&stores->blocks, *at)->next;
        }
        *at = model->next;
    }
    pthread_mutex_unlock(&stores->mutex);
    if (last) {
        sim_blocks_give_back(&stores->blocks, model);
    }
}

/** Return the stored model of a record, with a holder for it. If the same model is stored already,
 * give the record's block back. A different record with the same head is stored apart. */
static sim_block *model_of(sim_stores *stores, sim_block *own) {
    pthread_mutex_lock(&stores->mutex);
    sim_block *there = model_hold(
        stores, own->data, own->len < SHARED_HEAD ? (size_t)own->len : SHARED_HEAD, own->len);
    if (there == NULL) {
        model_add(stores, own);
    }
    pthread_mutex_unlock(&stores->mutex);
    if (there == NULL) {
        return own;
    }
    if (memcmp(there->data, own->data, own->len) == 0) {
        sim_blocks_give_back(&stores->blocks, own);
        return there;
    }
    model_leave(stores, there);
    pthread_mutex_lock(&stores->mutex);
    model_add(stores, own);
    pthread_mutex_unlock(&stores->mutex);
    return own;
}

size_t sim_stores_models(sim_stores *stores) {
    size_t count = 0;
    pthread_mutex_lock(&stores->mutex);
    for (uint64_t at = stores->models; at != 0; at = sim_blocks_at(&stores->blocks, at)->next) {
        count++;
    }
    pthread_mutex_unlock(&stores->mutex);
    return count;
}

/** Return the link to the value of a key. The link is 0 if there is no such value. */
static uint64_t *find(const sim_store *store, const char *key) {
    if (key_is_shared(key)) {
        return &store->has->model;
    }
    uint64_t *at = &store->has->values;
    while (*at != 0 && strcmp(sim_blocks_at(&store->stores->blocks, *at)->key, key) != 0) {
        at = &sim_blocks_at(&store->stores->blocks, *at)->next;
    }
    return at;
}

static sim_block *value_of(const sim_store *store, const char *key) {
    const uint64_t at = *find(store, key);
    return at != 0 ? sim_blocks_at(&store->stores->blocks, at) : NULL;
}

/** Store a block under a key, and release the one stored there; NULL: only release. */
static void set(sim_store *store, const char *key, sim_block *block) {
    sim_stores *stores = store->stores;
    uint64_t *at = find(store, key);
    sim_block *before = *at != 0 ? sim_blocks_at(&stores->blocks, *at) : NULL;
    const bool shared = key_is_shared(key);
    const uint64_t rest = before != NULL && !shared ? before->next : 0;
    if (block != NULL && !shared) {
        snprintf(block->key, sizeof block->key, "%s", key);
        block->next = rest;
    }
    *at = block != NULL ? sim_blocks_offset(&stores->blocks, block) : rest;
    if (before != NULL && shared) {
        model_leave(stores, before);
    } else if (before != NULL) {
        sim_blocks_give_back(&stores->blocks, before);
    }
}

static fed_status no_room(const char *key, size_t len, fed_error *err) {
    return fed_fail(err, FED_ENOSPC,
                    "no room to store a client's \"%s\" (%zu bytes): free some space in --out's "
                    "directory, or in $TMPDIR for a run without one",
                    key, len);
}

static void *store_room(void *user, size_t len) {
    sim_store *store = user;
    sim_block *block =
        touch(store->stores, NULL) == FED_OK ? sim_blocks_take(&store->stores->blocks, len) : NULL;
    return block != NULL ? block->data : NULL;
}

static void store_leave(void *user, void *room) {
    sim_store *store = user;
    if (room != NULL) {
        sim_blocks_give_back(&store->stores->blocks, sim_block_of(room));
    }
}

static fed_status store_give(void *user, const char *key, void *room, size_t len, fed_error *err) {
    sim_store *store = user;
    FED_TRY(touch(store->stores, err));
    if (strlen(key) >= SIM_BLOCK_KEY) {
        return no_room(key, len, err);
    }
    sim_block *block = sim_block_of(room);
    block->len = len;
    set(store, key, key_is_shared(key) ? model_of(store->stores, block) : block);
    return FED_OK;
}

static fed_status store_put(void *user, const char *key, const void *data, size_t len,
                            fed_error *err) {
    sim_store *store = user;
    FED_TRY(touch(store->stores, err));
    sim_block *before = value_of(store, key), *block = sim_blocks_take(&store->stores->blocks, len);
    const bool fits = before != NULL && len <= before->len && !key_is_shared(key);
    if (block == NULL && !fits) {
        return no_room(key, len, err);
    }
    sim_block *into =
        block != NULL
            ? block
            : before; /* without room for a new block, overwrite the value's present one */
    if (len > 0) {
        memmove(into->data, data, len);
    }
    into->len = len;
    fed_status status = block != NULL ? store_give(user, key, block->data, len, err) : FED_OK;
    if (status != FED_OK) {
        sim_blocks_give_back(&store->stores->blocks, block);
    }
    return status;
}

static fed_status store_lend(void *user, const char *key, const uint8_t **data, size_t *len,
                             fed_error *err) {
    const sim_block *value = value_of(user, key);
    if (value == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "a simulated client has stored nothing as \"%s\"", key);
    }
    *data = value->data;
    *len = (size_t)value->len;
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
    sim_block *value = key_is_shared(key) ? NULL : value_of(store, key);
    if (value == NULL) {
        return fed_fail(
            err, FED_ENOTFOUND,
            "a simulated client has stored nothing as \"%s\" that may be changed in place", key);
    }
    FED_TRY(touch(store->stores, err));
    *data = value->data;
    *len = (size_t)value->len;
    return FED_OK;
}

static fed_status store_adopt(void *user, const char *key, const void *begin, size_t len) {
    sim_store *store = user;
    FED_REQUIRE(key_is_shared(key), FED_ENOTFOUND);
    pthread_mutex_lock(&store->stores->mutex);
    sim_block *model = model_hold(store->stores, begin, len, 0);
    pthread_mutex_unlock(&store->stores->mutex);
    FED_REQUIRE(model != NULL, FED_ENOTFOUND);
    fed_status status = touch(store->stores, NULL);
    if (status != FED_OK) {
        model_leave(store->stores, model);
        return status;
    }
    set(store, key, model);
    return FED_OK;
}

static fed_status store_drop(void *user, const char *key, fed_error *err) {
    sim_store *store = user;
    if (value_of(store, key) != NULL) {
        FED_TRY(touch(store->stores, err));
        set(store, key, NULL);
    }
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
    static const char key[] = "optimizer";
    sim_store *store = &stores->store[k];
    FED_TRY(touch(stores, err));
    sim_block *block = value_of(store, key);
    if (block == NULL || block->len / sizeof(float) != floats) {
        block = floats <= SIZE_MAX / 8 ? sim_blocks_take(&stores->blocks, floats * sizeof(float))
                                       : NULL;
        if (block == NULL) {
            return no_room(key, floats * sizeof(float), err);
        }
        memset(block->data, 0, floats * sizeof(float));
        set(store, key, block);
    }
    *state = (float *)(void *)block->data;
    return FED_OK;
}

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

/** Open and lock the file of a run that can be resumed; empty it unless `resume` is true. */
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

static fed_status begin(sim_stores *stores, fed_error *err) {
    const size_t len = stores->clients * sizeof(client_values);
    sim_block *first = posix_fallocate(stores->blocks.fd, 0, SIM_BLOCKS_PAGE) == 0
                           ? sim_blocks_take(&stores->blocks, len)
                           : NULL;
    if (first == NULL) {
        return fed_fail(err, FED_ENOSPC,
                        "no room for the clients' stores on the disk; free some space in --out's "
                        "directory or in $TMPDIR");
    }
    memset(first->data, 0, len);
    return FED_OK;
}

static fed_status open_file(sim_stores *stores, const char *path, bool resume, size_t memory,
                            fed_error *err) {
    int fd = -1;
    FED_TRY(path != NULL ? open_kept(path, resume, &fd, err) : open_temporary(&fd, err));
    FED_TRY(sim_blocks_open(&stores->blocks, fd, memory, err));
    FED_TRY(resume ? load(stores, path, err) : begin(stores, err));
    sim_block *first = sim_blocks_at(&stores->blocks, SIM_BLOCKS_PAGE);
    client_values *has = (client_values *)(void *)first->data;
    for (uint32_t k = 0; k < stores->clients; k++) {
        stores->store[k] = (sim_store){.stores = stores, .has = &has[k]};
    }
    return FED_OK;
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
    fed_status status =
        fresh->store != NULL ? open_file(fresh, path, resume, memory, err) : FED_ENOMEM;
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
    free(stores->store);
    sim_blocks_close(&stores->blocks);
    pthread_mutex_destroy(&stores->mutex);
    free(stores);
}
