/* A coordinator of one device, in the test's own process, whose line fails as the test says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_FAKE_H
#define FED_FAKE_H

#include <stdbool.h>

#include "fed/arch.h"
#include "fed/wire.h"
#include "fedclient/memory_store.h"
#include "fedclient/transport.h"

typedef enum fed_fake_fault {
    FED_FAKE_UNREACHABLE, /* the request does not arrive: FED_ENET */
    FED_FAKE_LOST_ANSWER, /* it is done, the answer does not arrive: FED_ENET */
    FED_FAKE_STATUS,      /* it is not done; plan.status is the answer */
    FED_FAKE_GARBAGE,     /* 200, and bytes that mean nothing */
    FED_FAKE_TRUNCATED,   /* the first half of the answer */
    FED_FAKE_MIDWAY /* FED_ENET when half of the request's body, or of the answer, is through */
} fed_fake_fault;

/** What happens to the next `times` requests for a path. */
typedef struct fed_fake_plan {
    const char *path; /* "/v1/update"; any part of the URL */
    fed_fake_fault fault;
    int status;
    const char *error; /* "round_closed" */
    unsigned times;
    uint32_t retry_after_s; /* FED_FAKE_STATUS: beside it */
} fed_fake_plan;

enum { FED_FAKE_VERSIONS = 64 };

/**
 * A round takes one update, which is the next version's delta: so the model is the initial one plus
 * all that was counted. Everything is exact while values are multiples of a power of two.
 */
typedef struct fed_fake {
    fedclient_transport transport;
    fed_task task;
    fed_arch arch;
    float *model, *counted; /* counted: the sum of the updates */
    fed_writer delta[FED_FAKE_VERSIONS];
    fed_writer last_update; /* the body that was counted last */
    uint32_t version, rounds;
    uint64_t lease, last_lease;
    uint32_t evaluated; /* the last version measured + 1 */
    fed_metric metric;
    uint8_t protocol;    /* the newest that it speaks; FED_PROTOCOL unless a test says otherwise */
    bool wrong_digest;   /* the assignment's, from now on */
    bool gone;           /* there are no deltas any more */
    uint64_t dies_at;    /* the request from which on nothing arrives; UINT64_MAX: never */
    bool dies_answering; /* that request is still done */
    bool dies_midway;    /* or half of it, as FED_FAKE_MIDWAY */
    bool whole_only;     /* takes no pieces */
    bool claims_all;     /* says that the whole message has arrived, and asks for more */
    bool rangeless;      /* knows no ranges and no tags */
    fed_piece piece;     /* of the message that is coming in pieces */
    fed_writer message;
    fed_fake_plan plan;
    uint64_t requests, checkins, refused, downloads, updates, resent, metrics, identified, pieces;
    uint64_t sent_bytes, received_bytes; /* of models and updates: what came through */
    uint64_t renewals;
    bool no_declines;             /* knows nothing of them */
    uint64_t declines;            /* taken */
    fed_decline declined;         /* the last one; a reason makes the device wait from then on */
    uint32_t deadline_ms;         /* of each lease */
    char used_token[32];          /* "": none yet */
    uint8_t key[FED_SHA256_SIZE]; /* the one that is enrolled: its fingerprint */
    int64_t enrolled_until_s;     /* 0: until long after; renewed certificates always are */
    char last_url[256];
    char last_name[64],
        last_software[64]; /* as the last enrolment and check-in said; "": did not */
    fed_pem ca_key, ca_cert;
} fed_fake;

/** A task of `rounds` rounds. name: the model's, or its text. */
void fed_fake_open(fed_fake *fake, const char *name, const char *codec, uint32_t rounds);
void fed_fake_close(fed_fake *fake);

/** The open round's lease ends, unreported; the next check-in gets another. */
void fed_fake_expire(fed_fake *fake);

/** The task ends; another with that model begins. */
void fed_fake_new_task(fed_fake *fake, const char *name);

/** A platform around another that loses power at a put. */
typedef struct fed_fake_flash {
    fedclient_platform platform; /* use this one */
    fedclient_platform inner;
    uint64_t puts;
    uint64_t dies_at;  /* the put, from 0, that power fails in; UINT64_MAX: never */
    bool dies_writing; /* the new value is there all the same */
    bool dead;         /* nothing works until it is revived */
    const char *full;  /* there is no room for keys that begin so; NULL: there is for all */
    const fedclient_memory *lends; /* how inner hands over values where they lie */
} fed_fake_flash;

void fed_fake_flash_open(fed_fake_flash *flash);
/** From now on it hands over values where they lie, as memory does, all but to be changed there. */
void fed_fake_flash_lend(fed_fake_flash *flash);
void fed_fake_flash_revive(fed_fake_flash *flash);
void fed_fake_flash_close(fed_fake_flash *flash);

#endif
