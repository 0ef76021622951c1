/* The byte layout of the records between failure detector and member. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_RECORDS_H
#define FEDDC_RECORDS_H

#include "fed/bytes.h"
#include "fedclient/datacenter/control/membership.h"

/* A record is a byte for its kind, then the fields of this kind, little-endian as in
 * fed/bytes.h. */
typedef enum feddc_record_kind {
    /* from member to failure detector: */
    FEDDC_RECORD_JOIN = 1,
    FEDDC_RECORD_HEARTBEAT = 2,
    FEDDC_RECORD_MEET = 3,
    FEDDC_RECORD_DIGEST = 4,
    FEDDC_RECORD_BYE = 5,
    /* from failure detector to member: */
    FEDDC_RECORD_PONG = 16,         /* answers a heartbeat */
    FEDDC_RECORD_ASK = 17,          /* send a heartbeat now */
    FEDDC_RECORD_OVER = 18,         /* the generation is over */
    FEDDC_RECORD_WORKER_GROUP = 19, /* the next generation begins */
    FEDDC_RECORD_END = 20           /* the worker group is over for this member */
} feddc_record_kind;

enum {
    FEDDC_WHY = 400,
    FEDDC_RECORD_UP = 2048,        /* most bytes of a member's record */
    FEDDC_RECORD_DOWN = 256 * 1024 /* most bytes of the detector's: FEDDC_RANKS addresses fit */
};

/** A record of any kind. The capitals in the comments name the kinds that have this field. */
typedef struct feddc_record {
    feddc_record_kind kind;
    feddc_join join;
    feddc_heartbeat heartbeat;
    /* HEARTBEAT: the member's clock; PONG: sent_us of the answered heartbeat */
    uint64_t sent_us;
    uint64_t detector_us; /* PONG: the failure detector's clock */
    uint32_t completed;   /* MEET, DIGEST: number of completed steps */
    uint64_t digest;
    char address[FEDDC_ADDRESS];  /* MEET: the address where the member listens, or "" */
    char why[FEDDC_WHY];          /* MEET, BYE, OVER, WORKER_GROUP, END */
    uint32_t generation;          /* OVER, WORKER_GROUP */
    bool left_out;                /* END: the other members go on */
    uint32_t rank, size;          /* WORKER_GROUP; then follows a feddc_rank_row for each rank */
    uint8_t secret[FEDDC_SECRET]; /* masked with feddc_channel_mask */
} feddc_record;

typedef struct feddc_rank_row {
    uint32_t worker, completed;
    char address[FEDDC_ADDRESS];
} feddc_rank_row;

void feddc_record_write(fed_writer *w, const feddc_record *record);
void feddc_rank_row_write(fed_writer *w, const feddc_rank_row *row);

/** Read a record. FED_EFORMAT: the bytes are no record, or a value is not allowed. Only a
 * WORKER_GROUP leaves bytes unread: its rows. */
fed_status feddc_record_read(fed_reader *r, feddc_record *record) FED_CHECKED;
fed_status feddc_rank_row_read(fed_reader *r, feddc_rank_row *row) FED_CHECKED;

#endif
