/* A fake coordinator with one device, in the test's own process. The test plans the link's
 * faults. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_FAKE_H
#define FED_FAKE_H

#include <stdbool.h>

#include "fed/arch.h"
#include "fed/own_metrics.h"
#include "fed/private_terms.h"
#include "fed/wire.h"
#include "fed/worker_group.h"
#include "fedclient/memory_store.h"
#include "fedclient/transport.h"

typedef enum fed_fake_fault {
    FED_FAKE_UNREACHABLE, /* the request does not arrive: FED_ENET */
    FED_FAKE_LOST_ANSWER, /* the request is done, but the answer does not arrive: FED_ENET */
    FED_FAKE_SILENT,      /* the request is done, but no byte of the answer moves: FED_ETIMEOUT */
    FED_FAKE_UNTRUSTED,   /* TLS does not trust the fake's certificate: FED_EAUTH */
    FED_FAKE_STATUS,      /* the request is not done; the answer is plan.status */
    FED_FAKE_GARBAGE,     /* the answer is 200 with meaningless bytes */
    FED_FAKE_LONG,        /* the answer is longer than the device reads */
    FED_FAKE_TRUNCATED,   /* only the first half of the answer arrives */
    FED_FAKE_MIDWAY       /* FED_ENET after half of the request's body, or of the answer */
} fed_fake_fault;

/** What happens to the next `times` requests for a path. */
typedef struct fed_fake_plan {
    const char *path; /* part of the URL, such as "/v1/update" */
    fed_fake_fault fault;
    int status;
    const char *error; /* the answer's error word, such as "round_closed" */
    unsigned times;
    uint32_t retry_after_s; /* value of Retry-After; only with FED_FAKE_STATUS */
} fed_fake_plan;

enum { FED_FAKE_VERSIONS = 64 };

/** Each round takes one update, which becomes the next version's delta. So the model is the initial
 * model plus all counted updates. */
typedef struct fed_fake {
    fedclient_transport transport;
    fed_task task;
    fed_arch arch;
    float *model, *counted; /* counted: the sum of the updates */
    fed_writer delta[FED_FAKE_VERSIONS];
    fed_writer last_update;
    uint32_t version, rounds;
    uint64_t lease, last_lease;
    uint32_t evaluated; /* newest version that was evaluated, plus 1 */
    fed_metric metric;
    bool no_own;               /* the fake does not offer custom metrics */
    bool no_personal;          /* the fake does not know FED_CAN_PERSONAL */
    bool no_absent_loss;       /* the fake does not know FED_CAN_NO_LOSS */
    bool no_absent_accuracy;   /* nor FED_CAN_NO_ACCURACY */
    float loss;                /* of the last update */
    fed_own_metrics own;       /* custom metrics of the last update or evaluation */
    fed_privacy privacy;       /* sent with FED_CAN_PRIVATE, if it has a clip */
    uint8_t helper_secret[32]; /* of privacy.helper_key[0], if privacy.helpers is 1 */
    int32_t count;             /* of the last private update, if its round has one */
    fed_private sealed;        /* of the last private update for a helper */
    uint8_t seed[FED_SEED];
    uint8_t protocol;
    bool wrong_digest;   /* from now on, assignments carry a wrong digest */
    bool gone;           /* the fake has deleted its deltas */
    uint64_t dies_at;    /* from this request on (the first is 0), none is answered */
    bool dies_answering; /* the request number dies_at is still done */
    bool dies_midway;    /* half of the request number dies_at is done, as with FED_FAKE_MIDWAY */
    bool whole_only;     /* the fake refuses pieces */
    bool claims_all;     /* the fake says that the whole message has arrived, and asks for more */
    bool rangeless;      /* the fake knows no ranges and no tags */
    fed_piece piece;     /* the message that arrives in pieces */
    fed_writer message;
    fed_fake_plan plan;
    uint64_t requests, checkins, refused, downloads, updates, resent, metrics, identified, pieces;
    uint64_t sent_bytes, received_bytes; /* bytes of models sent, of updates received */
    uint64_t renewals;
    uint16_t devices_port; /* the port for devices in answers with certificates; 0: 8444 */
    bool wants_renewal;    /* each check-in's answer asks the device to renew its certificate */
    bool no_tasks;         /* the fake can't read a list of tasks */
    bool no_declines;
    bool no_starts;                 /* the fake does not know FED_STARTED */
    uint32_t capabilities, samples; /* of the last check-in */
    uint64_t declines;
    uint64_t layouts;      /* answers with a layout */
    const char *misled;    /* sent in place of the layout; NULL: the layout itself */
    uint32_t retry_ms;     /* the wait in milliseconds that an answer WAIT names; 0: 1234 */
    fed_decline declined;  /* the last decline; if it has a reason, check-ins are answered WAIT */
    bool no_worker_groups; /* the fake does not offer worker groups */
    bool no_named;         /* the fake does not offer worker groups that name devices */
    uint64_t groups;
    fed_worker_group group;
    uint32_t deadline_ms;
    char used_token[32];          /* the token that was used; "": none yet */
    uint8_t key[FED_SHA256_SIZE]; /* fingerprint of the enrolled key */
    int64_t enrolled_until_s;     /* end of the first certificate; 0: long after the test */
    char last_url[256];
    uint32_t last_hold_ms, last_patience_ms; /* of the last check-in */
    char last_name[64], last_computes_on[96], last_classes[20],
        last_software[64]; /* what the last enrolment and check-in named; "": nothing */
    fed_pem ca_key, ca_cert;
} fed_fake;

/** Open a fake with a task of `rounds` rounds. name: the model's name, or its text, which may be
 * too long for a task. */
void fed_fake_open(fed_fake *fake, const char *name, const char *codec, uint32_t rounds);
void fed_fake_close(fed_fake *fake);

void fed_fake_fail(fed_fake *fake, const char *path, fed_fake_fault fault, unsigned times);

void fed_fake_refuse(fed_fake *fake, const char *path, int status, const char *error);

/** End the open round's lease without an update. The next check-in gets another lease. */
void fed_fake_expire(fed_fake *fake);

void fed_fake_new_task(fed_fake *fake, const char *name);

/** A platform that wraps another one and loses power during a put. */
typedef struct fed_fake_flash {
    fedclient_platform platform; /* give this one to the client */
    fedclient_platform inner;
    uint64_t puts;
    uint64_t dies_at;              /* power fails in this put, counted from 0; UINT64_MAX: never */
    bool dies_writing;             /* the put in which power fails has written the new value */
    bool dead;                     /* nothing works until the test revives the flash */
    const char *full;              /* puts of keys with this prefix find no room; NULL: none */
    const fedclient_memory *lends; /* the functions of `inner` that lend stored values */
} fed_fake_flash;

void fed_fake_flash_open(fed_fake_flash *flash);
/** From now on, lend stored values in place, as memory does. The borrower may only read them. */
void fed_fake_flash_lend(fed_fake_flash *flash);
void fed_fake_flash_revive(fed_fake_flash *flash);
void fed_fake_flash_close(fed_fake_flash *flash);

#endif
