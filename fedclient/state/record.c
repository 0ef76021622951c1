/* Records in the platform's store. Each has a format number and a checksum, the guard. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/state/record.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fedclient/memory_store.h"

/* The layout of a record's head: magic, kind, format, two bytes 0, then the guard, a checksum of
 * all bytes after the guard. */
enum { AT_KIND = 4, AT_FORMAT = 5, AT_GUARD = 8, AT_FIELDS = 16, FORMAT = 1 };

static const char magic[4] = {'F', 'E', 'D', 'r'};

/* The first slot's keys have no number, so that records of releases without slots are found. */
const char *fedclient_record_key(fedclient_kind kind, unsigned slot, char key[FEDCLIENT_KEY]) {
    /* C6 in docs/durability.md: each piece of a download has a key of its own, not made here. */
    assert(kind != FEDCLIENT_DOWNLOAD);
    static const char *const words[] = {
        [FEDCLIENT_IDENTITY] = "identity", [FEDCLIENT_MODEL] = "model",
        [FEDCLIENT_RESIDUAL] = "residual", [FEDCLIENT_PENDING] = "pending",
        [FEDCLIENT_LAYOUT] = "layout",     [FEDCLIENT_SPENT] = "spent",
        [FEDCLIENT_PERSONAL] = "personal", [FEDCLIENT_OWN] = "own"};
    if (slot == 0) {
        snprintf(key, FEDCLIENT_KEY, "%s", words[kind]);
    } else {
        snprintf(key, FEDCLIENT_KEY, "%s%u", words[kind], slot);
    }
    return key;
}

fed_status fedclient_record_new(size_t payload, fedclient_record *record) {
    FED_REQUIRE(payload <= SIZE_MAX - FEDCLIENT_RECORD_HEAD, FED_ENOMEM);
    uint8_t *bytes = calloc(1, FEDCLIENT_RECORD_HEAD + payload);
    FED_REQUIRE(bytes != NULL, FED_ENOMEM);
    *record = (fedclient_record){.bytes = bytes, .len = FEDCLIENT_RECORD_HEAD + payload};
    return FED_OK;
}

fed_status fedclient_record_room(const fedclient_platform *platform, size_t payload,
                                 fedclient_record *record) {
    FED_REQUIRE(payload <= SIZE_MAX - FEDCLIENT_RECORD_HEAD, FED_ENOMEM);
    const fedclient_memory *memory = platform->memory;
    const size_t len = FEDCLIENT_RECORD_HEAD + payload;
    uint8_t *bytes = memory != NULL ? memory->room(platform->user, len) : malloc(len);
    FED_REQUIRE(bytes != NULL, FED_ENOMEM);
    memset(bytes, 0, FEDCLIENT_RECORD_HEAD);
    *record = (fedclient_record){
        .bytes = bytes, .len = len, .platform = memory != NULL ? platform : NULL};
    return FED_OK;
}

fed_status fedclient_record_in(void *bytes, size_t payload, fedclient_record *record) {
    FED_REQUIRE(bytes != NULL, FED_ENOMEM);
    memset(bytes, 0, FEDCLIENT_RECORD_HEAD);
    *record =
        (fedclient_record){.bytes = bytes, .len = FEDCLIENT_RECORD_HEAD + payload, .program = true};
    return FED_OK;
}

fed_status fedclient_record_own(fedclient_record *record) {
    if (!record->lent) {
        return FED_OK;
    }
    fedclient_record own;
    FED_TRY(fedclient_record_room(record->platform, record->len - FEDCLIENT_RECORD_HEAD, &own));
    memcpy(own.bytes, record->bytes, record->len);
    *record = own;
    return FED_OK;
}

void fedclient_record_free(fedclient_record *record) {
    if (record->platform == NULL) {
        free(record->program ? NULL : record->bytes);
    } else if (!record->lent) {
        record->platform->memory->leave(record->platform->user, record->bytes);
    }
    *record = (fedclient_record){0};
}

uint8_t *fedclient_record_payload(const fedclient_record *record, size_t *len) {
    assert(record->len >= FEDCLIENT_RECORD_HEAD);
    *len = record->len - FEDCLIENT_RECORD_HEAD;
    return record->bytes + FEDCLIENT_RECORD_HEAD;
}

float *fedclient_record_values(const fedclient_record *record, size_t *count) {
    size_t len = 0;
    /* The payload is aligned for floats: it begins 64 bytes into an aligned block. */
    void *payload = fedclient_record_payload(record, &len);
    *count = len / sizeof(float);
    return payload;
}

static uint64_t guard_of(const fedclient_record *record) {
    return fed_digest_bytes(record->bytes + AT_FIELDS, record->len - AT_FIELDS);
}

static fed_status record_check(const fedclient_platform *platform, const fedclient_record *record,
                               fedclient_kind kind, const char *key, fed_error *err) {
    if (record->len < FEDCLIENT_RECORD_HEAD || memcmp(record->bytes, magic, sizeof magic) != 0 ||
        record->bytes[AT_KIND] != kind) {
        return fed_fail(err, FED_EFORMAT,
                        "the stored value \"%s\" was not written by this library: restore it, or "
                        "remove it to go on without what it held",
                        key);
    }
    const uint8_t *format = record->bytes + AT_FORMAT;
    if (format[0] != FORMAT || format[1] != 0 || format[2] != 0) {
        return fed_fail(err, FED_EVERSION,
                        "the stored value \"%s\" has format %u, and this build reads"
                        " %d: use the release that wrote it",
                        key, format[0], FORMAT);
    }
    if (platform->memory != NULL) { /* a value in this process's memory has no guard */
        return FED_OK;
    }
    fed_reader r;
    fed_reader_init(&r, record->bytes + AT_GUARD, sizeof(uint64_t));
    if (fed_read_u64(&r) != guard_of(record)) {
        return fed_fail(err, FED_EFORMAT,
                        "the stored value \"%s\" is damaged (its checksum is wrong): "
                        "restore it, or remove it to go on without what it held",
                        key);
    }
    return FED_OK;
}

static fed_status borrow(const fedclient_platform *platform, const char *key,
                         fedclient_record *record, fed_error *err) {
    *record = (fedclient_record){.platform = platform, .lent = true};
    const uint8_t *bytes = NULL;
    FED_TRY(platform->memory->lend(platform->user, key, &bytes, &record->len, err));
    /* The cast is safe: fedclient_record_own copies the bytes before a change. */
    record->bytes = (uint8_t *)(uintptr_t)bytes;
    return FED_OK;
}

static fed_status fetch(const fedclient_platform *platform, fedclient_kind kind, const char *key,
                        fedclient_record *record, fed_error *err) {
    const bool large = kind == FEDCLIENT_MODEL || kind == FEDCLIENT_RESIDUAL ||
                       kind == FEDCLIENT_PERSONAL || kind == FEDCLIENT_OWN;
    return large && platform->memory != NULL
               ? borrow(platform, key, record, err)
               : platform->get(platform->user, key, &record->bytes, &record->len, err);
}

static fed_status load_as(const fedclient_platform *platform, fedclient_kind kind, const char *key,
                          fedclient_record *record, fed_error *err) {
    fedclient_record found = {0};
    fed_error why = {0};
    fed_status status = fetch(platform, kind, key, &found, &why);
    if (status == FED_OK) {
        status = record_check(platform, &found, kind, key, &why);
    }
    if (status == FED_OK) {
        *record = found;
        return FED_OK;
    }
    fedclient_record_free(&found);
    return status == FED_ENOTFOUND ? status : fed_fail(err, status, "%s", why.text);
}

fed_status fedclient_record_load(const fedclient_platform *platform, fedclient_kind kind,
                                 unsigned slot, fedclient_record *record, fed_error *err) {
    char key[FEDCLIENT_KEY];
    return load_as(platform, kind, fedclient_record_key(kind, slot, key), record, err);
}

static void complete(const fedclient_platform *platform, fedclient_kind kind,
                     fedclient_record *record) {
    memcpy(record->bytes, magic, sizeof magic);
    record->bytes[AT_KIND] = (uint8_t)kind;
    record->bytes[AT_FORMAT] = FORMAT;
    fed_writer w;
    fed_writer_fixed(&w, record->bytes + AT_GUARD, sizeof(uint64_t));
    fed_write_u64(&w, platform->memory != NULL ? 0 : guard_of(record));
}

static fed_status store_as(const fedclient_platform *platform, fedclient_kind kind, const char *key,
                           fedclient_record *record, fed_error *err) {
    /* C1, C5 in docs/durability.md: a put replaces a stored value, and never changes it in place.
     */
    assert(!record->lent);
    complete(platform, kind, record);
    if (record->platform == NULL) {
        return platform->put(platform->user, key, record->bytes, record->len, err);
    }
    FED_TRY(platform->memory->give(platform->user, key, record->bytes, record->len, err));
    return borrow(platform, key, record, err); /* the store may have moved the bytes */
}

fed_status fedclient_record_store(const fedclient_platform *platform, fedclient_kind kind,
                                  unsigned slot, fedclient_record *record, fed_error *err) {
    char key[FEDCLIENT_KEY];
    return store_as(platform, kind, fedclient_record_key(kind, slot, key), record, err);
}

/* The residual's byte after the loss. Older releases do not know it, so they read a loss of 0. */
static const uint8_t no_loss = 1;

/* The fields of a record's head follow the guard. The unused bytes of the head are 0. */

static fed_writer fields_out(fedclient_record *record) {
    /* C1, C5 in docs/durability.md: the head of a stored value is changed by a put only. */
    assert(!record->lent);
    memset(record->bytes + AT_FIELDS, 0, FEDCLIENT_RECORD_HEAD - AT_FIELDS);
    fed_writer w;
    fed_writer_fixed(&w, record->bytes + AT_FIELDS, FEDCLIENT_RECORD_HEAD - AT_FIELDS);
    return w;
}

static fed_reader fields_in(const fedclient_record *record) {
    fed_reader r;
    fed_reader_init(&r, record->bytes + AT_FIELDS, FEDCLIENT_RECORD_HEAD - AT_FIELDS);
    return r;
}

/** If no record is stored, *record is all 0. Else *r reads the head's fields, and *payload is the
 * payload's size in bytes. */
static fed_status load_any(const fedclient_platform *platform, fedclient_kind kind, unsigned slot,
                           fedclient_record *record, fed_reader *r, size_t *payload,
                           fed_error *err) {
    *record = (fedclient_record){0};
    fed_status status = fedclient_record_load(platform, kind, slot, record, err);
    if (status == FED_ENOTFOUND) {
        return FED_OK;
    }
    FED_TRY(status);
    *r = fields_in(record);
    *payload = record->len - FEDCLIENT_RECORD_HEAD;
    return FED_OK;
}

static fed_status load_end(bool sound, fedclient_kind kind, unsigned slot, fedclient_record *record,
                           fed_error *err) {
    if (sound) {
        return FED_OK;
    }
    char key[FEDCLIENT_KEY];
    fedclient_record_free(record);
    return fed_fail(err, FED_EFORMAT,
                    "the stored value \"%s\" has fields that can't be right: restore it, or remove "
                    "it to go on without what it held",
                    fedclient_record_key(kind, slot, key));
}

fed_status fedclient_model_load(const fedclient_platform *platform, unsigned slot,
                                fedclient_model_head *head, fedclient_record *record,
                                fed_error *err) {
    fed_reader r;
    size_t payload = 0;
    FED_TRY(load_any(platform, FEDCLIENT_MODEL, slot, record, &r, &payload, err));
    *head = (fedclient_model_head){0};
    if (record->bytes == NULL) {
        return FED_OK;
    }
    head->task = fed_read_u64(&r);
    head->version = fed_read_u32(&r);
    head->digest = fed_read_u64(&r);
    bool sound = head->task != 0 && payload % sizeof(float) == 0;
    return load_end(sound, FEDCLIENT_MODEL, slot, record, err);
}

fed_status fedclient_residual_load(const fedclient_platform *platform, unsigned slot,
                                   fedclient_residual_head *head, fedclient_record *record,
                                   fed_error *err) {
    fed_reader r;
    size_t payload = 0;
    FED_TRY(load_any(platform, FEDCLIENT_RESIDUAL, slot, record, &r, &payload, err));
    *head = (fedclient_residual_head){0};
    if (record->bytes == NULL) {
        return FED_OK;
    }
    head->seq = fed_read_u64(&r);
    head->task = fed_read_u64(&r);
    head->lease = fed_read_u64(&r);
    head->round = fed_read_u32(&r);
    head->samples = fed_read_u32(&r);
    head->loss = fed_read_f32(&r);
    bool sound = head->seq != 0 && isfinite(head->loss) && payload % sizeof(float) == 0;
    head->loss = fed_read_u8(&r) == no_loss ? NAN : head->loss;
    return load_end(sound, FEDCLIENT_RESIDUAL, slot, record, err);
}

fed_status fedclient_pending_load(const fedclient_platform *platform, unsigned slot,
                                  fedclient_pending_head *head, fedclient_record *record,
                                  fed_error *err) {
    fed_reader r;
    size_t payload = 0;
    FED_TRY(load_any(platform, FEDCLIENT_PENDING, slot, record, &r, &payload, err));
    *head = (fedclient_pending_head){0};
    if (record->bytes == NULL) {
        return FED_OK;
    }
    head->seq = fed_read_u64(&r);
    uint8_t fate = fed_read_u8(&r);
    head->fate = (fedclient_fate)fate;
    head->whole = fed_read_u8(&r) == 1;
    head->pieces = fed_read_u8(&r) == 1;
    head->first = fed_read_u64(&r);
    const bool sound = head->seq != 0 && fate <= FEDCLIENT_FATE_SETTLED;
    return load_end(sound, FEDCLIENT_PENDING, slot, record, err);
}

fed_status fedclient_layout_load(const fedclient_platform *platform, unsigned slot,
                                 fedclient_layout_head *head, fedclient_record *record,
                                 fed_error *err) {
    fed_reader r;
    size_t payload;
    *head = (fedclient_layout_head){0};
    FED_TRY(load_any(platform, FEDCLIENT_LAYOUT, slot, record, &r, &payload, err));
    if (record->bytes == NULL) {
        return FED_OK;
    }
    head->task = fed_read_u64(&r);
    memcpy(head->sha256, fed_read_bytes(&r, sizeof head->sha256), sizeof head->sha256);
    return load_end(head->task != 0, FEDCLIENT_LAYOUT, slot, record, err);
}

fed_status fedclient_layout_store(const fedclient_platform *platform, unsigned slot,
                                  const fedclient_layout_head *head, fedclient_record *record,
                                  fed_error *err) {
    assert(head->task != 0); /* C13 in docs/durability.md: the record names its task. */
    fed_writer w = fields_out(record);
    fed_write_u64(&w, head->task);
    fed_write_bytes(&w, head->sha256, sizeof head->sha256);
    return fedclient_record_store(platform, FEDCLIENT_LAYOUT, slot, record, err);
}

fed_status fedclient_own_load(const fedclient_platform *platform, unsigned slot,
                              fedclient_own_head *head, fedclient_record *record, fed_error *err) {
    fed_reader r;
    size_t payload = 0;
    *head = (fedclient_own_head){0};
    FED_TRY(load_any(platform, FEDCLIENT_OWN, slot, record, &r, &payload, err));
    if (record->bytes == NULL) {
        return FED_OK;
    }
    head->task = fed_read_u64(&r);
    head->seq = fed_read_u64(&r);
    const bool sound = head->task != 0 && head->seq != 0 && payload % sizeof(float) == 0;
    return load_end(sound, FEDCLIENT_OWN, slot, record, err);
}

fed_status fedclient_own_store(const fedclient_platform *platform, unsigned slot,
                               const fedclient_own_head *head, fedclient_record *record,
                               fed_error *err) {
    /* C14 in docs/durability.md: private layers name their task and their last training. */
    assert(head->task != 0 && head->seq != 0);
    fed_writer w = fields_out(record);
    fed_write_u64(&w, head->task);
    fed_write_u64(&w, head->seq);
    return fedclient_record_store(platform, FEDCLIENT_OWN, slot, record, err);
}

fed_status fedclient_personal_load(const fedclient_platform *platform, unsigned slot,
                                   fedclient_personal_head *head, fedclient_record *record,
                                   fed_error *err) {
    fed_reader r;
    size_t payload = 0;
    *head = (fedclient_personal_head){0};
    FED_TRY(load_any(platform, FEDCLIENT_PERSONAL, slot, record, &r, &payload, err));
    if (record->bytes == NULL) {
        return FED_OK;
    }
    head->task = fed_read_u64(&r);
    head->version = fed_read_u32(&r);
    head->digest = fed_read_u64(&r);
    head->count = fed_read_u64(&r);
    head->own = fed_read_u64(&r);
    const bool sound = head->task != 0 && payload > 0 &&
                       head->count <= (payload - 1) / sizeof(float) &&
                       record->bytes[record->len - 1] == '\0';
    return load_end(sound, FEDCLIENT_PERSONAL, slot, record, err);
}

fed_status fedclient_personal_store(const fedclient_platform *platform, unsigned slot,
                                    const fedclient_personal_head *head, fedclient_record *record,
                                    fed_error *err) {
    assert(head->task != 0); /* C11 in docs/durability.md: the copy names its task. */
    fed_writer w = fields_out(record);
    fed_write_u64(&w, head->task);
    fed_write_u32(&w, head->version);
    fed_write_u64(&w, head->digest);
    fed_write_u64(&w, head->count);
    fed_write_u64(&w, head->own);
    return fedclient_record_store(platform, FEDCLIENT_PERSONAL, slot, record, err);
}

static void model_fields(const fedclient_model_head *head, fedclient_record *record) {
    fed_writer w = fields_out(record);
    fed_write_u64(&w, head->task);
    fed_write_u32(&w, head->version);
    fed_write_u64(&w, head->digest);
}

fed_status fedclient_model_store(const fedclient_platform *platform, unsigned slot,
                                 const fedclient_model_head *head, fedclient_record *record,
                                 fed_error *err) {
    /* C5 in docs/durability.md: the model names its task, so that its digest can be compared with
     * the task's version. */
    assert(head->task != 0);
    model_fields(head, record);
    return fedclient_record_store(platform, FEDCLIENT_MODEL, slot, record, err);
}

fed_status fedclient_model_adopt(const fedclient_platform *platform, unsigned slot,
                                 const fedclient_model_head *head, fedclient_record *record) {
    if (platform->memory == NULL || platform->memory->adopt == NULL) {
        return FED_ENOTFOUND;
    }
    uint8_t bytes[FEDCLIENT_RECORD_HEAD] = {0};
    fedclient_record wanted = {.bytes = bytes, .len = sizeof bytes};
    model_fields(head, &wanted);
    complete(platform, FEDCLIENT_MODEL, &wanted);
    char key[FEDCLIENT_KEY];
    FED_TRY(platform->memory->adopt(
        platform->user, fedclient_record_key(FEDCLIENT_MODEL, slot, key), bytes, sizeof bytes));
    fedclient_record_free(record);
    return fedclient_record_load(platform, FEDCLIENT_MODEL, slot, record, NULL);
}

fed_status fedclient_residual_store(const fedclient_platform *platform, unsigned slot,
                                    const fedclient_residual_head *head, fedclient_record *record,
                                    fed_error *err) {
    /* C1 in docs/durability.md: a stored residual has the number of its last training and its task.
     */
    assert(head->seq != 0 && head->task != 0);
    fed_writer w = fields_out(record);
    fed_write_u64(&w, head->seq);
    fed_write_u64(&w, head->task);
    fed_write_u64(&w, head->lease);
    fed_write_u32(&w, head->round);
    fed_write_u32(&w, head->samples);
    const bool has_loss = !isnan(head->loss);
    fed_write_f32(&w, has_loss ? head->loss : 0);
    if (!has_loss) {
        fed_write_u8(&w, no_loss);
    }
    return fedclient_record_store(platform, FEDCLIENT_RESIDUAL, slot, record, err);
}

fed_status fedclient_pending_store(const fedclient_platform *platform, unsigned slot,
                                   const fedclient_pending_head *head, fedclient_record *record,
                                   fed_error *err) {
    /* C2 in docs/durability.md: a stored message has the number of the training that it was made
     * from. */
    assert(head->seq != 0);
    /* C3 in docs/durability.md: only a store in this process's memory subtracts a message in place.
     */
    assert(head->fate != FEDCLIENT_FATE_SETTLED || platform->memory != NULL);
    fed_writer w = fields_out(record);
    fed_write_u64(&w, head->seq);
    fed_write_u8(&w, (uint8_t)head->fate);
    fed_write_u8(&w, head->whole);
    fed_write_u8(&w, head->pieces);
    fed_write_u64(&w, head->first);
    return fedclient_record_store(platform, FEDCLIENT_PENDING, slot, record, err);
}

static const char *download_key(unsigned k, char key[FEDCLIENT_KEY]) {
    snprintf(key, FEDCLIENT_KEY, "download%u", k);
    return key;
}

fed_status fedclient_download_load(const fedclient_platform *platform, unsigned k,
                                   fedclient_download_head *head, fedclient_record *record,
                                   fed_error *err) {
    char key[FEDCLIENT_KEY];
    *record = (fedclient_record){0};
    fed_status status = load_as(platform, FEDCLIENT_DOWNLOAD, download_key(k, key), record, err);
    if (status != FED_OK) {
        bool damaged = status == FED_EFORMAT || status == FED_EVERSION;
        return damaged ? FED_ENOTFOUND : status; /* a damaged piece can be downloaded again */
    }
    fed_reader r = fields_in(record);
    head->task = fed_read_u64(&r);
    head->have = fed_read_u32(&r);
    head->want = fed_read_u32(&r);
    head->digest = fed_read_u64(&r);
    head->tag = fed_read_u64(&r);
    head->total = fed_read_u64(&r);
    head->offset = fed_read_u64(&r);
    return FED_OK;
}

fed_status fedclient_download_store(const fedclient_platform *platform, unsigned k,
                                    const fedclient_download_head *head, fedclient_record *record,
                                    fed_error *err) {
    char key[FEDCLIENT_KEY];
    /* C6 in docs/durability.md: a stored piece names the task and the ETag of the answer that it is
     * a part of. */
    assert(head->task != 0 && head->tag != 0);
    fed_writer w = fields_out(record);
    fed_write_u64(&w, head->task);
    fed_write_u32(&w, head->have);
    fed_write_u32(&w, head->want);
    fed_write_u64(&w, head->digest);
    fed_write_u64(&w, head->tag);
    fed_write_u64(&w, head->total);
    fed_write_u64(&w, head->offset);
    return store_as(platform, FEDCLIENT_DOWNLOAD, download_key(k, key), record, err);
}

fed_status fedclient_download_drop(const fedclient_platform *platform, unsigned k, fed_error *err) {
    char key[FEDCLIENT_KEY];
    return platform->drop(platform->user, download_key(k, key), err);
}
