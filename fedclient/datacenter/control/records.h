/* The records between judge and member: one struct each, one byte layout. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_RECORDS_H
#define FEDDC_RECORDS_H

#include "fed/bytes.h"
#include "fedclient/datacenter/control/roll.h"

/*
 * A record is a byte that says its kind, and the fields of its struct, little-endian as in
 * fed/bytes.h. Feeding a record that was read to the writer gives the same bytes.
 */
typedef enum feddc_record_kind {
    /* member to judge */
    FEDDC_RECORD_JOIN = 1,
    FEDDC_RECORD_BEAT = 2,
    FEDDC_RECORD_MEET = 3,
    FEDDC_RECORD_DIGEST = 4,
    FEDDC_RECORD_BYE = 5,
    /* judge to member */
    FEDDC_RECORD_PONG = 16, /* answers a beat */
    FEDDC_RECORD_ASK = 17,  /* beat now */
    FEDDC_RECORD_OVER = 18, /* the generation is over */
    FEDDC_RECORD_GANG = 19, /* the next one begins */
    FEDDC_RECORD_END = 20   /* the gang is over for this member */
} feddc_record_kind;

enum {
    FEDDC_WHY = 400,
    FEDDC_RECORD_UP = 1024,        /* most bytes of a member's record */
    FEDDC_RECORD_DOWN = 256 * 1024 /* and of the judge's: FEDDC_RANKS addresses */
};

/** A record of any kind; its kind says which members are used. */
typedef struct feddc_record {
    feddc_record_kind kind;
    feddc_join join;
    feddc_beat beat;
    uint64_t sent_us;  /* BEAT: the member's clock; PONG: the same */
    uint64_t judge_us; /* PONG: the judge's clock */
    uint32_t whole;    /* MEET, DIGEST */
    uint64_t digest;
    char address[FEDDC_ADDRESS]; /* MEET: "" or where it listens */
    char why[FEDDC_WHY];         /* MEET, BYE, OVER, GANG, END */
    uint32_t generation;         /* OVER, GANG */
    bool left_out;               /* END: the others go on */
    /* GANG; the rows of the ranks follow, each of feddc_rank_row */
    uint32_t rank, size;
    uint8_t secret[FEDDC_SECRET]; /* masked */
} feddc_record;

/** A rank of a generation. */
typedef struct feddc_rank_row {
    uint32_t worker, whole;
    char address[FEDDC_ADDRESS];
} feddc_rank_row;

void feddc_record_write(fed_writer *w, const feddc_record *record);
void feddc_rank_row_write(fed_writer *w, const feddc_rank_row *row);

/** FED_EFORMAT: no record, or a field has a value that it cannot have. Only GANG may have bytes
 * left after it: its rows. */
fed_status feddc_record_read(fed_reader *r, feddc_record *record) FED_CHECKED;
fed_status feddc_rank_row_read(fed_reader *r, feddc_rank_row *row) FED_CHECKED;

#endif
