/* The log of values in a NOR flash. flash_log.h describes its bytes and its rules F1 to F5. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/platforms/flash/flash_log.h"

#include <string.h>

#include "fed/bytes.h"
#include "fedclient/platforms/flash/crc32.h"

enum { CHUNK = 64 };

static const uint32_t block_magic = 0x424C4446;  /* "FDLB" */
static const uint32_t record_magic = 0x524C4446; /* "FDLR" */

uint32_t flash_log_payload(const flash_log *log) {
    return log->flash.block_bytes - FLASH_BLOCK_HEAD;
}

uint32_t flash_log_size(const flash_log *log, size_t len) {
    const uint32_t unit = log->flash.unit_bytes;
    return ((uint32_t)len + FLASH_RECORD_HEAD + FLASH_RECORD_TAIL + unit - 1) / unit * unit;
}

static flash_place after(const flash_log *log, flash_place place, uint32_t n) {
    const uint32_t payload = flash_log_payload(log);
    const uint32_t at = place.at - FLASH_BLOCK_HEAD + n;
    /* The end of a block counts as a place of that block. */
    const uint32_t blocks = at == 0 ? 0 : (at - 1) / payload;
    return (flash_place){(place.block + blocks) % log->flash.blocks,
                         at - blocks * payload + FLASH_BLOCK_HEAD};
}

static uint32_t address_of(const flash_log *log, flash_place place) {
    return place.block * log->flash.block_bytes + place.at;
}

/** The bytes from a place to its block's end. A place at the end first moves to the next block. */
static uint32_t here(const flash_log *log, flash_place *place) {
    if (place->at == log->flash.block_bytes) {
        *place = (flash_place){(place->block + 1) % log->flash.blocks, FLASH_BLOCK_HEAD};
    }
    return log->flash.block_bytes - place->at;
}

static fed_status read_at(const flash_log *log, flash_place place, void *dst, uint32_t n) {
    for (uint8_t *to = dst; n > 0;) {
        const uint32_t most = here(log, &place), len = n < most ? n : most;
        FED_TRY(log->flash.read(log->flash.user, address_of(log, place), to, len));
        place.at += len;
        to += len;
        n -= len;
    }
    return FED_OK;
}

static uint32_t pack_head(uint8_t dst[FLASH_RECORD_HEAD], flash_kind kind, const char *key,
                          uint32_t len) {
    fed_writer w;
    memset(dst, 0, FLASH_RECORD_HEAD);
    fed_writer_fixed(&w, dst, FLASH_RECORD_HEAD);
    fed_write_u32(&w, record_magic);
    fed_write_u32(&w, len);
    fed_write_u8(&w, (uint8_t)kind);
    fed_write_bytes(&w, key, strlen(key));
    const uint32_t crc = flash_crc32(0, dst, FLASH_RECORD_HEAD - sizeof(uint32_t));
    fed_writer_fixed(&w, dst + FLASH_RECORD_HEAD - sizeof crc, sizeof crc);
    fed_write_u32(&w, crc);
    return flash_crc32(0, dst, FLASH_RECORD_HEAD);
}

/** Read a record's head. False: there is none. *crc becomes the head's CRC, with which read_data
 * begins. */
static bool unpack_head(const uint8_t src[FLASH_RECORD_HEAD], flash_value *value, uint32_t *crc) {
    fed_reader r;
    fed_reader_init(&r, src, FLASH_RECORD_HEAD);
    const uint32_t magic = fed_read_u32(&r);
    value->len = fed_read_u32(&r);
    value->kind = (flash_kind)fed_read_u8(&r);
    memcpy(value->key, src + r.pos, FEDCLIENT_FLASH_KEY);
    value->key[FEDCLIENT_FLASH_KEY] = '\0';
    fed_reader_init(&r, src + FLASH_RECORD_HEAD - sizeof(uint32_t), sizeof(uint32_t));
    *crc = flash_crc32(0, src, FLASH_RECORD_HEAD);
    return magic == record_magic && (value->kind == FLASH_PUT || value->kind == FLASH_DROP) &&
           fed_read_u32(&r) == flash_crc32(0, src, FLASH_RECORD_HEAD - sizeof(uint32_t));
}

static void pack_tail(uint8_t dst[FLASH_RECORD_TAIL], uint32_t crc) {
    fed_writer w;
    fed_writer_fixed(&w, dst, FLASH_RECORD_TAIL);
    fed_write_u32(&w, crc);
    fed_write_u32(&w, ~crc);
}

/** Read a record's data and tail; dst NULL: only check them. FED_EFORMAT: the tail is wrong. */
static fed_status read_data(const flash_log *log, const flash_value *value, uint32_t crc,
                            uint8_t *dst) {
    uint8_t chunk[CHUNK], tail[FLASH_RECORD_TAIL], right[FLASH_RECORD_TAIL];
    flash_place place = after(log, value->begin, FLASH_RECORD_HEAD);
    for (uint32_t done = 0; done < value->len;) {
        const uint32_t left = value->len - done, len = left < CHUNK ? left : CHUNK;
        uint8_t *to = dst != NULL ? dst + done : chunk;
        FED_TRY(read_at(log, place, to, len));
        crc = flash_crc32(crc, to, len);
        place = after(log, place, len);
        done += len;
    }
    FED_TRY(read_at(log, place, tail, sizeof tail));
    pack_tail(right, crc);
    return memcmp(tail, right, sizeof tail) == 0 ? FED_OK : FED_EFORMAT;
}

/** Read the head of the record at value->begin, and check its tail. FED_EFORMAT: there is no
 * complete record. */
static fed_status read_record(const flash_log *log, flash_value *value) {
    uint8_t head[FLASH_RECORD_HEAD];
    uint32_t crc = 0;
    FED_TRY(read_at(log, value->begin, head, sizeof head));
    FED_REQUIRE(unpack_head(head, value, &crc), FED_EFORMAT);
    FED_REQUIRE(value->len < log->flash.blocks * flash_log_payload(log), FED_EFORMAT);
    return read_data(log, value, crc, NULL);
}

fed_status flash_log_read(const flash_log *log, const flash_value *value, void *dst) {
    uint8_t head[FLASH_RECORD_HEAD];
    return read_data(log, value, pack_head(head, value->kind, value->key, value->len), dst);
}

flash_value *flash_log_find(flash_log *log, const char *key) {
    for (size_t k = 0; k < log->count; k++) {
        if (strcmp(log->value[k].key, key) == 0) {
            return &log->value[k];
        }
    }
    return NULL;
}

/** Note a record's value, or that it was dropped. Call this for all records in the order in which
 * they were written. */
static fed_status note(flash_log *log, const flash_value *value) {
    flash_value *known = flash_log_find(log, value->key);
    if (value->kind == FLASH_DROP) {
        if (known != NULL) {
            *known = log->value[--log->count];
        }
        return FED_OK;
    }
    if (known == NULL) {
        FED_REQUIRE(log->count < FEDCLIENT_FLASH_KEYS, FED_EFORMAT);
        known = &log->value[log->count++];
    }
    *known = *value;
    return FED_OK;
}

/** Read a block's head. *sequence = its sequence number, 0 if the block has no head; *first = where
 * the first record begins in the block. */
static fed_status read_block(const flash_log *log, uint32_t block, uint32_t *sequence,
                             uint32_t *first) {
    uint8_t head[FLASH_BLOCK_HEAD];
    fed_reader r;
    FED_TRY(log->flash.read(log->flash.user, block * log->flash.block_bytes, head, sizeof head));
    fed_reader_init(&r, head, sizeof head);
    const uint32_t magic = fed_read_u32(&r);
    *sequence = fed_read_u32(&r);
    *first = fed_read_u32(&r);
    if (magic != block_magic || *first < FLASH_BLOCK_HEAD ||
        fed_read_u32(&r) != flash_crc32(0, head, 3 * sizeof(uint32_t))) {
        *sequence = 0;
    }
    return FED_OK;
}

static fed_status find_last(flash_log *log, uint32_t *last) {
    uint32_t newest = 0, sequence = 0, first = 0;
    *last = log->flash.blocks - 1;
    for (uint32_t block = 0; block < log->flash.blocks; block++) {
        FED_TRY(read_block(log, block, &sequence, &first));
        if (sequence > newest) {
            newest = sequence;
            *last = block;
        }
    }
    log->next_sequence = newest + 1;
    return FED_OK;
}

/** Note the values of the complete records that begin in a block, and set log->head after each. */
static fed_status mount_block(flash_log *log, uint32_t block) {
    uint32_t sequence = 0;
    flash_value value = {.begin.block = block};
    FED_TRY(read_block(log, block, &sequence, &value.begin.at));
    while (sequence != 0 && value.begin.block == block && value.begin.at < log->flash.block_bytes) {
        const fed_status status = read_record(log, &value);
        if (status == FED_EFORMAT) {
            return FED_OK;
        }
        FED_TRY(status);
        FED_TRY(note(log, &value));
        value.begin = after(log, value.begin, flash_log_size(log, value.len));
        log->head = value.begin;
    }
    return FED_OK;
}

static fed_status is_blank(const flash_log *log, flash_place place, bool *blank) {
    uint8_t chunk[CHUNK];
    for (*blank = true; *blank && place.at < log->flash.block_bytes;) {
        const uint32_t left = log->flash.block_bytes - place.at;
        const uint32_t len = left < CHUNK ? left : CHUNK;
        FED_TRY(log->flash.read(log->flash.user, address_of(log, place), chunk, len));
        for (uint32_t k = 0; k < len; k++) {
            *blank = *blank && chunk[k] == 0xFF;
        }
        place.at += len;
    }
    return FED_OK;
}

/** Write nothing more into the head's block, whose rest may be partly programmed. */
static void leave_block(flash_log *log) {
    log->head.at = log->flash.block_bytes;
}

fed_status flash_log_mount(flash_log *log) {
    uint32_t last = 0;
    bool blank = false;
    FED_TRY(find_last(log, &last));
    log->head = (flash_place){last, log->flash.block_bytes};
    for (uint32_t k = 1; k <= log->flash.blocks; k++) {
        FED_TRY(mount_block(log, (last + k) % log->flash.blocks));
    }
    FED_TRY(is_blank(log, log->head, &blank));
    if (!blank) {
        leave_block(log);
    }
    return FED_OK;
}

static fed_status flush(flash_log *log) {
    const flash_place begin = {log->write.block, log->write.at - log->staged};
    const uint32_t len = log->staged;
    log->staged = 0;
    return len == 0 ? FED_OK
                    : log->flash.program(log->flash.user, address_of(log, begin), log->page, len);
}

/** Erase the next block, and write its head. carried: the bytes that are left of a record that
 * continues in the block. */
static fed_status begin_block(flash_log *log, uint32_t carried) {
    uint8_t head[FLASH_BLOCK_HEAD];
    fed_writer w;
    const uint32_t block = (log->write.block + 1) % log->flash.blocks;
    const uint32_t address = block * log->flash.block_bytes;
    const bool ends = carried < flash_log_payload(log);
    memset(head, 0xFF, sizeof head);
    fed_writer_fixed(&w, head, sizeof head);
    fed_write_u32(&w, block_magic);
    fed_write_u32(&w, log->next_sequence);
    fed_write_u32(&w, ends ? FLASH_BLOCK_HEAD + carried : UINT32_MAX);
    fed_write_u32(&w, flash_crc32(0, head, 3 * sizeof(uint32_t)));
    FED_TRY(log->flash.erase(log->flash.user, address));
    FED_TRY(log->flash.program(log->flash.user, address, head, sizeof head));
    log->next_sequence++;
    log->write = (flash_place){block, FLASH_BLOCK_HEAD};
    return FED_OK;
}

static fed_status push(flash_log *log, const void *src, uint32_t len) {
    for (const uint8_t *from = src; len > 0;) {
        if (log->write.at == log->flash.block_bytes) {
            FED_TRY(begin_block(log, log->left));
        }
        const uint32_t room = FEDCLIENT_FLASH_PAGE - log->write.at % FEDCLIENT_FLASH_PAGE;
        const uint32_t n = len < room ? len : room;
        memcpy(log->page + log->staged, from, n);
        log->staged += n;
        log->write.at += n;
        log->left -= n;
        from += n;
        len -= n;
        if (n == room) {
            FED_TRY(flush(log));
        }
    }
    return FED_OK;
}

/** Begin a record of `size` bytes. If it begins in a new block, the block is begun now, so that
 * value->begin is known. */
static fed_status begin_record(flash_log *log, uint32_t size, flash_value *value) {
    log->write = log->head;
    log->left = size;
    log->staged = 0;
    if (log->write.at == log->flash.block_bytes) {
        FED_TRY(begin_block(log, 0));
    }
    value->begin = log->write;
    return FED_OK;
}

static fed_status end_record(flash_log *log, const flash_value *value) {
    uint8_t padding[FEDCLIENT_FLASH_UNIT];
    flash_value written = *value;
    memset(padding, 0xFF, sizeof padding);
    FED_TRY(push(log, padding, log->left));
    FED_TRY(flush(log));
    FED_REQUIRE(read_record(log, &written) == FED_OK && written.kind == value->kind &&
                    strcmp(written.key, value->key) == 0 && written.len == value->len,
                FED_EIO);
    log->head = log->write;
    return FED_OK;
}

static fed_status write_record(flash_log *log, flash_value *value, const void *data) {
    uint8_t head[FLASH_RECORD_HEAD], tail[FLASH_RECORD_TAIL];
    uint32_t crc = pack_head(head, value->kind, value->key, value->len);
    FED_TRY(begin_record(log, flash_log_size(log, value->len), value));
    FED_TRY(push(log, head, sizeof head));
    if (value->len > 0) {
        FED_TRY(push(log, data, value->len));
        crc = flash_crc32(crc, data, value->len);
    }
    pack_tail(tail, crc);
    FED_TRY(push(log, tail, sizeof tail));
    return end_record(log, value);
}

fed_status flash_log_append(flash_log *log, flash_kind kind, const char *key, const void *data,
                            size_t len) {
    flash_value value = {.kind = kind, .len = (uint32_t)len};
    memcpy(value.key, key, strlen(key) + 1);
    const fed_status status = write_record(log, &value, data);
    if (status != FED_OK) {
        leave_block(log); /* rule F5 of flash_log.h */
        return status;
    }
    return note(log, &value);
}

/** Return how many blocks a value's block comes after the head's block in the ring. The next block,
 * which is the oldest, gives 1. The head's own block gives the largest distance. */
static uint32_t distance(const flash_log *log, const flash_value *value) {
    const uint32_t blocks = log->flash.blocks;
    return (value->begin.block + blocks - log->head.block - 1) % blocks + 1;
}

static flash_value *oldest(flash_log *log) {
    flash_value *best = NULL;
    for (size_t k = 0; k < log->count; k++) {
        flash_value *value = &log->value[k];
        if (best == NULL || distance(log, value) < distance(log, best) ||
            (distance(log, value) == distance(log, best) && value->begin.at < best->begin.at)) {
            best = value;
        }
    }
    return best;
}

uint32_t flash_log_room(const flash_log *log) {
    uint32_t blocks = log->flash.blocks - 1;
    for (size_t k = 0; k < log->count; k++) {
        const uint32_t at = distance(log, &log->value[k]);
        blocks = at - 1 < blocks ? at - 1 : blocks;
    }
    return log->flash.block_bytes - log->head.at + blocks * flash_log_payload(log);
}

static fed_status copy_record(flash_log *log, const flash_value *from, flash_value *to) {
    uint8_t chunk[CHUNK];
    const uint32_t size = flash_log_size(log, from->len);
    FED_TRY(begin_record(log, size, to));
    for (uint32_t done = 0; done < size;) {
        const uint32_t left = size - done, len = left < CHUNK ? left : CHUNK;
        FED_TRY(read_at(log, after(log, from->begin, done), chunk, len));
        FED_TRY(push(log, chunk, len));
        done += len;
    }
    return end_record(log, to);
}

fed_status flash_log_clean(flash_log *log) {
    flash_value *value = oldest(log);
    FED_REQUIRE(value != NULL, FED_ENOTFOUND);
    FED_REQUIRE(flash_log_room(log) >= flash_log_size(log, value->len), FED_ENOSPC);
    flash_value copy = *value;
    const fed_status status = copy_record(log, value, &copy);
    if (status != FED_OK) {
        leave_block(log);
        return status;
    }
    *value = copy;
    return FED_OK;
}
