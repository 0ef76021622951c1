/* Inside the client library: the records that the client keeps in its platform's store. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_RECORD_H
#define FEDCLIENT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/bytes.h"
#include "fed/error.h"
#include "fed/hash.h"
#include "fedclient/platform.h"

/* A record is a head of 64 bytes, then a payload (layout: docs/durability.md). In memory they are
 * one block, so a payload as large as the model can be changed in place. */
enum { FEDCLIENT_RECORD_HEAD = 64 };

typedef enum fedclient_kind {
    FEDCLIENT_IDENTITY = 1,
    FEDCLIENT_MODEL = 2,
    FEDCLIENT_RESIDUAL = 3,
    FEDCLIENT_PENDING = 4,
    FEDCLIENT_DOWNLOAD = 5,
    FEDCLIENT_LAYOUT = 6,
    FEDCLIENT_SPENT = 7,
    FEDCLIENT_PERSONAL = 8,
    FEDCLIENT_OWN = 9
} fedclient_kind;

typedef struct fedclient_record {
    uint8_t *bytes; /* NULL: no record */
    size_t len;
    /* The platform that lent the bytes, or whose room() returned them; NULL: neither. */
    const fedclient_platform *platform;
    bool lent;    /* the bytes are the store's, and must not be changed */
    bool program; /* the bytes are from fedclient_options.room, and are not freed here */
} fedclient_record;

/** A record with a payload of `payload` bytes, all 0. Free with fedclient_record_free. */
fed_status fedclient_record_new(size_t payload, fedclient_record *record) FED_CHECKED;

/** Make a record whose payload has any content. If the platform has a function "room", the memory
 * is from there, and storing the record needs no copy. */
fed_status fedclient_record_room(const fedclient_platform *platform, size_t payload,
                                 fedclient_record *record) FED_CHECKED;

/** Make a record in the program's memory, uint8[FEDCLIENT_RECORD_HEAD + payload]. FED_ENOMEM: bytes
 * is NULL. */
fed_status fedclient_record_in(void *bytes, size_t payload, fedclient_record *record) FED_CHECKED;

/** Make a loaded record changeable: if its bytes are lent by the store, copy them. */
fed_status fedclient_record_own(fedclient_record *record) FED_CHECKED;
void fedclient_record_free(fedclient_record *record);

uint8_t *fedclient_record_payload(const fedclient_record *record, size_t *len);

/** The payload as float32[*count]. */
float *fedclient_record_values(const fedclient_record *record, size_t *count);

enum { FEDCLIENT_KEY = 24 };

/** The store's key of a kind in a slot: "residual" in slot 0, "residual1" in slot 1. The identity
 * and what is spent are in slot 0. Returns key. */
const char *fedclient_record_key(fedclient_kind kind, unsigned slot, char key[FEDCLIENT_KEY]);

/** Read a record and check its guard. FED_ENOTFOUND (*err unchanged), FED_EFORMAT damaged,
 * FED_EVERSION. A store in memory (fedclient/memory_store.h) lends a model or a residual: such a
 * record has no guard, and is valid until the next store of the same key. */
fed_status fedclient_record_load(const fedclient_platform *platform, fedclient_kind kind,
                                 unsigned slot, fedclient_record *record,
                                 fed_error *err) FED_CHECKED;

/** Complete the head (kind, format, guard) and put the record. If its memory is from the
 * platform's room, the memory then belongs to the store, and the record only borrows it. */
fed_status fedclient_record_store(const fedclient_platform *platform, fedclient_kind kind,
                                  unsigned slot, fedclient_record *record,
                                  fed_error *err) FED_CHECKED;

/** The head of the record of a layout (fed/layout_reference.h), which is the record's payload. */
typedef struct fedclient_layout_head {
    uint64_t task; /* 0: no layout */
    uint8_t sha256[FED_SHA256_SIZE];
} fedclient_layout_head;

typedef struct fedclient_model_head {
    uint64_t task; /* 0: no model */
    uint32_t version;
    uint64_t digest;
} fedclient_model_head;

/** The head of the residual record. It describes the last training that was added. */
typedef struct fedclient_residual_head {
    uint64_t seq; /* grows with each training; 0: no residual */
    uint64_t task, lease;
    uint32_t round, samples;
    float loss; /* NaN: none */
} fedclient_residual_head;

typedef enum fedclient_fate {
    FEDCLIENT_FATE_UNKNOWN = 0,
    FEDCLIENT_FATE_COUNTED = 1, /* acknowledged: subtract the message from the residual */
    FEDCLIENT_FATE_REFUSED = 2, /* not counted: the residual still holds all of it */
    FEDCLIENT_FATE_SETTLED = 3  /* acknowledged, and already subtracted from the residual */
} fedclient_fate;

/** The head of the pending record. Its payload is the body of POST /v1/update. */
typedef struct fedclient_pending_head {
    uint64_t seq; /* seq of the residual that the message was made from; 0: no message */
    fedclient_fate fate;
    bool whole;  /* nothing is left of the residual once the message is counted */
    bool pieces; /* the coordinator takes the message in pieces */
    /* The last training number of the first slot when the message was made. If that number changes
     * before the fate is known, a program without this slot has trained meanwhile. */
    uint64_t first;
} fedclient_pending_head;

#define FEDCLIENT_HAVE_NONE UINT32_MAX

/** The head of a record that holds a piece of a download. The record's payload is a range of the
 * bytes of the coordinator's answer. */
typedef struct fedclient_download_head {
    uint64_t task;       /* 0: no download */
    uint32_t have;       /* version that the download starts from, or FEDCLIENT_HAVE_NONE */
    uint32_t want;       /* version that the download leads to */
    uint64_t digest;     /* of version `want` */
    uint64_t tag, total; /* of the whole answer: its ETag and its bytes */
    uint64_t offset;     /* the payload's first byte in the answer */
} fedclient_download_head;

/** The head of the record of private layers, whose values are the payload. */
typedef struct fedclient_own_head {
    uint64_t task; /* 0: no private layers */
    uint64_t seq;  /* the number of their last training */
} fedclient_own_head;

/** The head of the device's own copy of a model. The payload is the values, then the model's text
 * with its NUL. */
typedef struct fedclient_personal_head {
    uint64_t task; /* 0: no copy */
    uint32_t version;
    uint64_t digest, count; /* of the version that the copy was made from; number of values */
    uint64_t own; /* the number of the last training of the private layers in it; 0: it has none */
} fedclient_personal_head;

/*
 * The load functions read a record of a slot and its head; if none is stored, *head and *record
 * are all 0. The store functions write the head into the record, and put the record.
 */
fed_status fedclient_model_load(const fedclient_platform *platform, unsigned slot,
                                fedclient_model_head *head, fedclient_record *record,
                                fed_error *err) FED_CHECKED;
fed_status fedclient_residual_load(const fedclient_platform *platform, unsigned slot,
                                   fedclient_residual_head *head, fedclient_record *record,
                                   fed_error *err) FED_CHECKED;
fed_status fedclient_pending_load(const fedclient_platform *platform, unsigned slot,
                                  fedclient_pending_head *head, fedclient_record *record,
                                  fed_error *err) FED_CHECKED;

fed_status fedclient_layout_load(const fedclient_platform *platform, unsigned slot,
                                 fedclient_layout_head *head, fedclient_record *record,
                                 fed_error *err) FED_CHECKED;

fed_status fedclient_personal_load(const fedclient_platform *platform, unsigned slot,
                                   fedclient_personal_head *head, fedclient_record *record,
                                   fed_error *err) FED_CHECKED;

fed_status fedclient_personal_store(const fedclient_platform *platform, unsigned slot,
                                    const fedclient_personal_head *head, fedclient_record *record,
                                    fed_error *err) FED_CHECKED;
fed_status fedclient_own_load(const fedclient_platform *platform, unsigned slot,
                              fedclient_own_head *head, fedclient_record *record,
                              fed_error *err) FED_CHECKED;
fed_status fedclient_own_store(const fedclient_platform *platform, unsigned slot,
                               const fedclient_own_head *head, fedclient_record *record,
                               fed_error *err) FED_CHECKED;
fed_status fedclient_layout_store(const fedclient_platform *platform, unsigned slot,
                                  const fedclient_layout_head *head, fedclient_record *record,
                                  fed_error *err) FED_CHECKED;
fed_status fedclient_model_store(const fedclient_platform *platform, unsigned slot,
                                 const fedclient_model_head *head, fedclient_record *record,
                                 fed_error *err) FED_CHECKED;
fed_status fedclient_residual_store(const fedclient_platform *platform, unsigned slot,
                                    const fedclient_residual_head *head, fedclient_record *record,
                                    fed_error *err) FED_CHECKED;
fed_status fedclient_pending_store(const fedclient_platform *platform, unsigned slot,
                                   const fedclient_pending_head *head, fedclient_record *record,
                                   fed_error *err) FED_CHECKED;

/** If another device of this process has stored the model that *head describes under the same key,
 * this model becomes this device's stored model, too. Else FED_ENOTFOUND, and nothing has changed.
 */
fed_status fedclient_model_adopt(const fedclient_platform *platform, unsigned slot,
                                 const fedclient_model_head *head,
                                 fedclient_record *record) FED_CHECKED;

/* Load the k-th piece of a download. FED_ENOTFOUND: it is missing or damaged. */
fed_status fedclient_download_load(const fedclient_platform *platform, unsigned k,
                                   fedclient_download_head *head, fedclient_record *record,
                                   fed_error *err) FED_CHECKED;
fed_status fedclient_download_store(const fedclient_platform *platform, unsigned k,
                                    const fedclient_download_head *head, fedclient_record *record,
                                    fed_error *err) FED_CHECKED;
fed_status fedclient_download_drop(const fedclient_platform *platform, unsigned k,
                                   fed_error *err) FED_CHECKED;

#endif
