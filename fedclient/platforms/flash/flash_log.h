/* A log of named values in a NOR flash: where each value is, and how records are written. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_FLASH_LOG_H
#define FEDCLIENT_FLASH_LOG_H

#include <stdbool.h>

#include "fedclient/flash.h"

/*
 * The flash is a ring of blocks. A block begins with a head: magic, sequence number, where the
 * first record begins in the block, CRC-32. Records lie one after the other, across blocks:
 *
 *     head, 64 bytes   magic, data length, kind, key, CRC-32
 *     data
 *     tail, 8 bytes    CRC-32 of head and data, and its complement
 *     ones, up to a multiple of the unit
 *
 * F1  A record counts once its tail is right. The tail is programmed last.
 * F2  Of two records with the same key the later one counts.
 * F3  A block is erased only when it holds no value, and only to be written at once.
 * F4  Blocks are written in the ring's order. So a record of kind FLASH_DROP is never copied: when
 *     its block is erased, the older blocks with the dropped value were erased before.
 * F5  After an interruption, writing continues after the last record that counts, or in the next
 *     block if the rest of this one may be programmed. So unfinished records take no more room
 *     however often power fails.
 */
enum { FLASH_BLOCK_HEAD = 64, FLASH_RECORD_HEAD = 64, FLASH_RECORD_TAIL = 8 };

typedef enum flash_kind { FLASH_PUT = 1, FLASH_DROP = 2 } flash_kind;

/** A place in the log: a byte of a block. at == block_bytes: the end of the block. */
typedef struct flash_place {
    uint32_t block, at;
} flash_place;

typedef struct flash_value {
    char key[FEDCLIENT_FLASH_KEY + 1];
    flash_kind kind;
    flash_place begin;
    uint32_t len;
} flash_value;

typedef struct flash_log {
    fedclient_flash flash;
    flash_value value[FEDCLIENT_FLASH_KEYS];
    size_t count;
    flash_place head; /* where the next record begins */
    uint32_t next_sequence;
    flash_place write;                  /* where the record's next byte goes */
    uint32_t left;                      /* bytes of the record that are not written yet */
    uint8_t page[FEDCLIENT_FLASH_PAGE]; /* the record's bytes before `write`, not programmed yet */
    uint32_t staged;
} flash_log;

/** Find all values. Before the call, all members of *log but flash must be 0. Errors: those of the
 * flash's read; FED_EFORMAT: more than FEDCLIENT_FLASH_KEYS keys. */
fed_status flash_log_mount(flash_log *log) FED_CHECKED;

/** The value of a key; NULL if there is none. */
flash_value *flash_log_find(flash_log *log, const char *key);

/** The bytes that a record with len bytes of data takes. */
uint32_t flash_log_size(const flash_log *log, size_t len);

/** The bytes that records may take before a block with a value would have to be erased. */
uint32_t flash_log_room(const flash_log *log);

/** The bytes of records that fit into a block. */
uint32_t flash_log_payload(const flash_log *log);

/** Write a record at the head, and read it back. After a failure *log has the values as before.
 * FED_EIO: the record can't be read back as written; other errors are those of the flash's
 * functions. */
fed_status flash_log_append(flash_log *log, flash_kind kind, const char *key, const void *data,
                            size_t len) FED_CHECKED;

/** Copy the oldest value to the head, so that its block can be erased. Errors: those of
 * flash_log_append; FED_ENOSPC there is no room for the copy; FED_ENOTFOUND no value. */
fed_status flash_log_clean(flash_log *log) FED_CHECKED;

/** Read a value's data into dst, uint8[value->len]. FED_EFORMAT: it is damaged. */
fed_status flash_log_read(const flash_log *log, const flash_value *value, void *dst) FED_CHECKED;

#endif
