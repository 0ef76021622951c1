/* Inside the client library: the records that the client keeps in its platform's store. */
#ifndef FEDCLIENT_RECORD_H
#define FEDCLIENT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/bytes.h"
#include "fed/error.h"
#include "fedclient/platform.h"

/*
 * A record is a head of 64 bytes, then a payload (docs/durability.md has the layout). It is kept in
 * one block of memory exactly as it is stored, so that a model-sized payload is changed in place
 * and never copied.
 */
enum { FEDCLIENT_RECORD_HEAD = 64 };

typedef enum fedclient_kind {
    FEDCLIENT_IDENTITY = 1,
    FEDCLIENT_MODEL = 2,
    FEDCLIENT_RESIDUAL = 3,
    FEDCLIENT_PENDING = 4,
    FEDCLIENT_DOWNLOAD = 5 /* a value each piece: fedclient_download_load */
} fedclient_kind;

typedef struct fedclient_record {
    uint8_t *bytes; /* NULL: none */
    size_t len;
    const fedclient_platform *platform; /* whose room it is; NULL: malloc's */
    bool lent;                          /* it lies in the store: not to be changed */
} fedclient_record;

/** A record with a payload of that many bytes, all 0. Owner: fedclient_record_free. */
fed_status fedclient_record_new(size_t payload, fedclient_record *record) FED_CHECKED;

/** Likewise, but with any payload, and in the platform's room where it has such: storing it takes
 * no copy. Also for scratch. */
fed_status fedclient_record_room(const fedclient_platform *platform, size_t payload,
                                 fedclient_record *record) FED_CHECKED;

/** Before a record is changed that was loaded: one that is lent is copied. */
fed_status fedclient_record_own(fedclient_record *record) FED_CHECKED;
void fedclient_record_free(fedclient_record *record);

uint8_t *fedclient_record_payload(const fedclient_record *record, size_t *len);

/** The payload as values. */
float *fedclient_record_values(const fedclient_record *record, size_t *count);

/** The key it is stored under: "residual". */
const char *fedclient_record_key(fedclient_kind kind);

/** Read one and check its guard. FED_ENOTFOUND (*err untouched), FED_EFORMAT damaged, FED_EVERSION.
 * A model or a residual is lent, if the platform does that: without a guard, till its next store.
 */
fed_status fedclient_record_load(const fedclient_platform *platform, fedclient_kind kind,
                                 fedclient_record *record, fed_error *err) FED_CHECKED;

/** Complete the head (kind, format, guard) and put it. A room goes to the store and is lent from
 * then on. */
fed_status fedclient_record_store(const fedclient_platform *platform, fedclient_kind kind,
                                  fedclient_record *record, fed_error *err) FED_CHECKED;

/** What the model record says of its values. */
typedef struct fedclient_model_head {
    uint64_t task; /* 0: no model */
    uint32_t version;
    uint64_t digest;
} fedclient_model_head;

/** What the residual record says of its values: which training was the last to go in. */
typedef struct fedclient_residual_head {
    uint64_t seq; /* grows with each training; 0: no residual */
    uint64_t task, lease;
    uint32_t round, samples;
    float loss;
} fedclient_residual_head;

/** What is known of an upload. */
typedef enum fedclient_fate {
    FEDCLIENT_FATE_UNKNOWN = 0, /* send it (again) */
    FEDCLIENT_FATE_COUNTED = 1, /* acknowledged: it is no longer owed */
    FEDCLIENT_FATE_REFUSED = 2  /* it is still owed, all of it */
} fedclient_fate;

/** What the pending record says of its payload: the body of POST /v1/update. */
typedef struct fedclient_pending_head {
    uint64_t seq; /* of the residual that it was made from; 0: no upload */
    fedclient_fate fate;
    bool whole; /* it carries all of the residual that it can ever carry: once counted, 0 is left */
    bool pieces; /* the coordinator takes it in pieces */
} fedclient_pending_head;

#define FEDCLIENT_HAVE_NONE UINT32_MAX

/** What the record of a download's piece says of its payload: some bytes of the answer. */
typedef struct fedclient_download_head {
    uint64_t task; /* 0: no download */
    uint32_t have; /* the version it starts from; FEDCLIENT_HAVE_NONE */
    uint32_t want; /* and leads to, with this digest: */
    uint64_t digest;
    uint64_t tag, total; /* of the whole answer */
    uint64_t offset;     /* where in it the payload begins */
} fedclient_download_head;

/*
 * Load one with its head; where none is stored, *head and *record are all 0. Store one: the head is
 * written into the record first.
 */
fed_status fedclient_model_load(const fedclient_platform *platform, fedclient_model_head *head,
                                fedclient_record *record, fed_error *err) FED_CHECKED;
fed_status fedclient_residual_load(const fedclient_platform *platform,
                                   fedclient_residual_head *head, fedclient_record *record,
                                   fed_error *err) FED_CHECKED;
fed_status fedclient_pending_load(const fedclient_platform *platform, fedclient_pending_head *head,
                                  fedclient_record *record, fed_error *err) FED_CHECKED;

fed_status fedclient_model_store(const fedclient_platform *platform,
                                 const fedclient_model_head *head, fedclient_record *record,
                                 fed_error *err) FED_CHECKED;
fed_status fedclient_residual_store(const fedclient_platform *platform,
                                    const fedclient_residual_head *head, fedclient_record *record,
                                    fed_error *err) FED_CHECKED;
fed_status fedclient_pending_store(const fedclient_platform *platform,
                                   const fedclient_pending_head *head, fedclient_record *record,
                                   fed_error *err) FED_CHECKED;

/** Where the store holds that model, from whichever device: it is this one's, too, and lent. Else
 * FED_ENOTFOUND, and nothing has changed. */
fed_status fedclient_model_adopt(const fedclient_platform *platform,
                                 const fedclient_model_head *head,
                                 fedclient_record *record) FED_CHECKED;

/* The k-th piece of a download likewise; but a damaged one is FED_ENOTFOUND, too. */
fed_status fedclient_download_load(const fedclient_platform *platform, unsigned k,
                                   fedclient_download_head *head, fedclient_record *record,
                                   fed_error *err) FED_CHECKED;
fed_status fedclient_download_store(const fedclient_platform *platform, unsigned k,
                                    const fedclient_download_head *head, fedclient_record *record,
                                    fed_error *err) FED_CHECKED;
fed_status fedclient_download_drop(const fedclient_platform *platform, unsigned k,
                                   fed_error *err) FED_CHECKED;

#endif
