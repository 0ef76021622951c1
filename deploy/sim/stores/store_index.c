/* The clients' stores in their file: an index after the blocks, and a first page that says whether
 * the index holds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/stores/store_index.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/bytes.h"
#include "fed/file.h"
#include "fed/hash.h"

/*
 * The first page:  magic, format (u32), clients (u32), the blocks' end, the index's length and
 *                  digest (u64 each), digest of these; all 0 while a run uses the file
 * Blocks:          blocks.h
 * Index:           models, then each client's values and optimizer state, then free blocks. A block
 *                  is its offset, length and digest (u64 each).
 * Integers are little-endian, blocks in the machine's own order: it is for the same machine.
 */
enum { FORMAT = 1, HEAD = 48, KIND_END = 0, KIND_SMALL = 1, KIND_BLOCK = 2, KIND_MODEL = 3 };

static const char magic[8] = "FEDflash";

/* ---- Saving ---- */

static void write_block(fed_writer *w, const sim_stores *stores, const void *data, size_t len) {
    fed_write_u64(w, sim_blocks_offset(&stores->blocks, data));
    fed_write_u64(w, len);
    fed_write_u64(w, fed_digest_bytes(data, len));
}

static void write_value(fed_writer *w, const sim_stores *stores, const sim_value *value) {
    fed_write_u8(w, value->model != NULL ? KIND_MODEL : value->in_block ? KIND_BLOCK : KIND_SMALL);
    fed_write_str(w, value->key);
    if (value->model != NULL) {
        fed_write_u32(w, value->model->number);
    } else if (value->in_block) {
        write_block(w, stores, value->data, value->len);
    } else {
        fed_write_u64(w, value->len);
        fed_write_bytes(w, value->data, value->len);
    }
}

static void write_store(fed_writer *w, const sim_stores *stores, const sim_store *store) {
    for (const sim_value *value = store->values; value != NULL; value = value->next) {
        if (value->data != NULL) {
            write_value(w, stores, value);
        }
    }
    fed_write_u8(w, KIND_END);
    fed_write_u64(w, store->optimizer != NULL ? store->optimizer_floats : 0);
    if (store->optimizer != NULL && store->optimizer_floats > 0) {
        write_block(w, stores, store->optimizer, store->optimizer_floats * sizeof(float));
    }
}

static void write_index(fed_writer *w, sim_stores *stores) {
    uint32_t number = 0;
    fed_write_u64(w, stores->model_count);
    for (sim_model *model = stores->models; model != NULL; model = model->next) {
        model->number = number++;
        write_block(w, stores, model->data, model->len);
    }
    for (uint32_t k = 0; k < stores->clients; k++) {
        write_store(w, stores, &stores->store[k]);
    }
    sim_blocks_write_free(&stores->blocks, w);
}

static void write_head(uint8_t head[HEAD + 8], const sim_stores *stores, const fed_writer *index) {
    fed_writer w;
    fed_writer_fixed(&w, head, HEAD + 8);
    fed_write_bytes(&w, magic, sizeof magic);
    fed_write_u32(&w, FORMAT);
    fed_write_u32(&w, stores->clients);
    fed_write_u64(&w, stores->blocks.end);
    fed_write_u64(&w, index->len);
    fed_write_u64(&w, fed_digest_bytes(index->data, index->len));
    fed_write_u64(&w, 0);
    fed_write_u64(&w, fed_digest_bytes(head, HEAD));
}

fed_status sim_index_save(sim_stores *stores, fed_error *err) {
    fed_writer index;
    uint8_t head[HEAD + 8];
    fed_writer_growing(&index);
    write_index(&index, stores);
    write_head(head, stores, &index);
    fed_status status = index.status;
    if (status == FED_OK) {
        status = sim_blocks_write(&stores->blocks, index.data, index.len, stores->blocks.end);
        status = status == FED_OK ? status
                                  : fed_file_fail(err, "write", "the file of the clients' stores");
    }
    fed_writer_free(&index);
    FED_TRY(status);
    /* First all that the head speaks of, then the head. */
    status = sim_blocks_save(&stores->blocks);
    if (status == FED_OK) {
        memcpy(stores->blocks.base, head, sizeof head);
        status = msync(stores->blocks.base, SIM_BLOCKS_PAGE, MS_SYNC) == 0 ? FED_OK : FED_EIO;
    }
    if (status != FED_OK) {
        return fed_file_fail(err, "sync", "the file of the clients' stores");
    }
    atomic_store(&stores->synced, true);
    return FED_OK;
}

fed_status sim_index_spoil(sim_stores *stores, fed_error *err) {
    sim_blocks *blocks = &stores->blocks;
    pthread_mutex_lock(&stores->mutex);
    bool done = true;
    if (atomic_load(&stores->synced)) {
        memset(blocks->base, 0, SIM_BLOCKS_PAGE);
        done = msync(blocks->base, SIM_BLOCKS_PAGE, MS_SYNC) == 0 &&
               ftruncate(blocks->fd, (off_t)blocks->end) == 0; /* new blocks are 0 */
        atomic_store(&stores->synced, !done);
    }
    pthread_mutex_unlock(&stores->mutex);
    return done ? FED_OK : fed_file_fail(err, "change", "the file of the clients' stores");
}

/* ---- Loading ---- */

/** A block that the index speaks of, if it is there and undamaged; NULL. */
static uint8_t *read_block(fed_reader *r, const sim_stores *stores, size_t *len) {
    uint64_t offset = fed_read_u64(r), size = fed_read_u64(r), digest = fed_read_u64(r);
    uint8_t *data = r->status == FED_OK && size <= SIZE_MAX
                        ? sim_blocks_at(&stores->blocks, offset, (size_t)size)
                        : NULL;
    *len = (size_t)size;
    return data != NULL && fed_digest_bytes(data, *len) == digest ? data : NULL;
}

/** The index's models, by their numbers; *count of them. */
static fed_status read_models(fed_reader *r, sim_stores *stores, sim_model ***models,
                              uint64_t *count) {
    *count = fed_read_u64(r);
    FED_REQUIRE(*count <= fed_reader_left(r), FED_EFORMAT);
    *models = calloc((size_t)*count + 1, sizeof(void *));
    FED_REQUIRE(*models != NULL, FED_ENOMEM);
    for (uint64_t k = 0; k < *count; k++) {
        sim_model *model = calloc(1, sizeof *model);
        FED_REQUIRE(model != NULL, FED_ENOMEM);
        model->next = stores->models;
        stores->models = model;
        stores->model_count++;
        (*models)[k] = model;
        model->data = read_block(r, stores, &model->len);
        FED_REQUIRE(model->data != NULL, FED_EFORMAT);
    }
    return FED_OK;
}

static fed_status read_value(fed_reader *r, sim_store *store, uint8_t kind, sim_model **models,
                             uint64_t model_count) {
    char key[SIM_STORE_KEY];
    fed_read_str(r, key, sizeof key);
    sim_value *value = sim_store_value(store, key);
    FED_REQUIRE(value != NULL, FED_ENOMEM);
    FED_REQUIRE(r->status == FED_OK && value->data == NULL, FED_EFORMAT);
    if (kind == KIND_MODEL) {
        uint32_t number = fed_read_u32(r);
        FED_REQUIRE(number < model_count, FED_EFORMAT);
        value->model = models[number];
        value->model->holders++;
        value->data = value->model->data;
        value->len = value->model->len;
    } else if (kind == KIND_BLOCK) {
        value->data = read_block(r, store->stores, &value->len);
        FED_REQUIRE(value->data != NULL, FED_EFORMAT);
    } else {
        uint64_t len = fed_read_u64(r);
        const uint8_t *bytes = len <= fed_reader_left(r) ? fed_read_bytes(r, (size_t)len) : NULL;
        FED_REQUIRE(bytes != NULL, FED_EFORMAT);
        value->data = malloc((size_t)len + 1);
        FED_REQUIRE(value->data != NULL, FED_ENOMEM);
        memcpy(value->data, bytes, (size_t)len);
        value->len = (size_t)len;
    }
    value->in_block = kind != KIND_SMALL;
    return FED_OK;
}

static fed_status read_store(fed_reader *r, sim_store *store, sim_model **models,
                             uint64_t model_count) {
    uint8_t kind = fed_read_u8(r);
    for (; kind != KIND_END; kind = fed_read_u8(r)) {
        FED_REQUIRE(kind <= KIND_MODEL, FED_EFORMAT);
        FED_TRY(read_value(r, store, kind, models, model_count));
    }
    uint64_t floats = fed_read_u64(r);
    if (floats > 0) {
        size_t len = 0;
        store->optimizer = (float *)(void *)read_block(r, store->stores, &len);
        FED_REQUIRE(store->optimizer != NULL && len / sizeof(float) == floats, FED_EFORMAT);
        store->optimizer_floats = (size_t)floats;
    }
    return r->status;
}

static fed_status read_index(fed_reader *r, sim_stores *stores) {
    sim_model **models = NULL;
    uint64_t count = 0;
    fed_status status = read_models(r, stores, &models, &count);
    for (uint32_t k = 0; k < stores->clients && status == FED_OK; k++) {
        status = read_store(r, &stores->store[k], models, count);
    }
    for (uint64_t k = 0; k < count && status == FED_OK; k++) {
        status = models[k]->holders > 0 ? FED_OK : FED_EFORMAT;
    }
    free(models);
    FED_TRY(status);
    FED_TRY(sim_blocks_read_free(&stores->blocks, r));
    return fed_reader_end(r);
}

/** What the first page says. */
typedef struct head {
    uint32_t format, clients;
    uint64_t end, index_len, index_digest;
} head;

static fed_status read_head(const uint8_t *page, const char *path, head *h, fed_error *err) {
    static const uint8_t in_use[HEAD];
    fed_reader r;
    fed_reader_init(&r, page, HEAD + 8);
    if (memcmp(page, in_use, sizeof in_use) == 0) {
        return fed_fail(err, FED_EFORMAT,
                        "%s is of a run that was killed, or is going on: begin that run again",
                        path);
    }
    const uint8_t *mark = fed_read_bytes(&r, sizeof magic);
    h->format = fed_read_u32(&r);
    h->clients = fed_read_u32(&r);
    h->end = fed_read_u64(&r);
    h->index_len = fed_read_u64(&r);
    h->index_digest = fed_read_u64(&r);
    (void)fed_read_u64(&r);
    if (memcmp(mark, magic, sizeof magic) != 0) {
        return fed_fail(err, FED_EFORMAT, "%s does not hold a simulation's clients", path);
    }
    if (h->format != FORMAT) {
        return fed_fail(err, FED_EVERSION,
                        "%s has format %u, this build reads %d: use the release that wrote it",
                        path, h->format, FORMAT);
    }
    return fed_read_u64(&r) == fed_digest_bytes(page, HEAD)
               ? FED_OK
               : fed_fail(err, FED_EFORMAT, "%s is damaged: begin the run again", path);
}

/** Read the index, which follows the blocks, into index [h->index_len]. */
static fed_status read_index_at(sim_stores *stores, const head *h, uint8_t *index) {
    FED_TRY(sim_blocks_read(&stores->blocks, index, (size_t)h->index_len, h->end));
    FED_REQUIRE(fed_digest_bytes(index, (size_t)h->index_len) == h->index_digest, FED_EFORMAT);
    fed_reader r;
    fed_reader_init(&r, index, (size_t)h->index_len);
    return read_index(&r, stores);
}

static fed_status load(sim_stores *stores, const head *h, uint64_t size) {
    const uint64_t room = size < stores->blocks.limit ? size : stores->blocks.limit;
    FED_REQUIRE(h->end >= SIM_BLOCKS_PAGE && h->end % SIM_BLOCKS_PAGE == 0 && h->end <= room &&
                    h->index_len <= room - h->end,
                FED_EFORMAT);
    FED_TRY(sim_blocks_load(&stores->blocks, h->end));
    uint8_t *index = malloc((size_t)h->index_len + 1);
    FED_REQUIRE(index != NULL, FED_ENOMEM);
    fed_status status = read_index_at(stores, h, index);
    free(index);
    return status;
}

fed_status sim_index_load(sim_stores *stores, const char *path, fed_error *err) {
    struct stat about;
    head h = {0};
    if (fstat(stores->blocks.fd, &about) != 0) {
        return fed_file_fail(err, "read", path);
    }
    if (about.st_size < SIM_BLOCKS_PAGE) {
        return fed_fail(err, FED_EFORMAT, "%s does not hold a simulation's clients", path);
    }
    FED_TRY(read_head(stores->blocks.base, path, &h, err));
    if (h.clients != stores->clients) {
        return fed_fail(err, FED_EINVAL, "%s holds %u clients, not %u: resume with as many", path,
                        h.clients, stores->clients);
    }
    fed_status status = load(stores, &h, (uint64_t)about.st_size);
    if (status == FED_EFORMAT) {
        return fed_fail(err, status, "%s is damaged: begin the run again", path);
    }
    if (status == FED_EIO) {
        return fed_file_fail(err, "read", path);
    }
    FED_TRY(status);
    atomic_store(&stores->synced, true);
    return FED_OK;
}
