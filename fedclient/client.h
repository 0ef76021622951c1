/* Inside the client library: the client, one step of it, and the functions of its files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_CLIENT_H
#define FEDCLIENT_CLIENT_H

#include <stdbool.h>

#include "fed/hash.h"
#include "fed/own_metrics.h"
#include "fedclient/fedclient.h"
#include "fedclient/record.h"
#include "fedcodec/codec.h"

enum { FEDCLIENT_URL = 320 };

/** Whether the coordinator and the program still want the running callback (watch.c). Times are
 * the platform's monotonic_ms. */
typedef struct fedclient_watch {
    int64_t deadline_ms; /* INT64_MAX: none */
    int64_t look_ms;     /* when to ask the program again */
    int64_t ask_ms;      /* when to ask the coordinator again; INT64_MAX: never */
    int64_t every_ms;    /* time between two questions to the coordinator */
    fed_error over;      /* FED_OK while the callback is wanted; else why it is not */
} fedclient_watch;

/** What this device keeps of one task: the heads of the three stored records. */
typedef struct fedclient_slot {
    unsigned number;            /* of the slot: it is in the records' keys */
    fedclient_model_head model; /* all 0: none. So are the next two */
    fedclient_residual_head residual;
    fedclient_pending_head pending;
} fedclient_slot;

struct fedclient {
    fedclient_options options;
    char front[FEDCLIENT_URL];   /* "https://host:8443" */
    char devices[FEDCLIENT_URL]; /* the same host, the devices' port; "" before enrolment */
    unsigned addresses;          /* how many options.server has */
    unsigned address;            /* which of them `front` is, from 0 */
    uint16_t devices_port;       /* 0 before enrolment */
    bool unreached;              /* nobody answered there, or it could not serve */
    char device[FED_SHA256_HEX]; /* "" before enrolment */
    int64_t expires_s;           /* the certificate's last second, Unix */
    int64_t renew_s;             /* the time from which on to ask for the next certificate */
    bool renew_asked;            /* the coordinator asks this device to renew now */
    int64_t renew_again_s;       /* until this time renew_asked is ignored */
    fedclient_slot *slot;        /* the one in use, of `slots` */
    bool known;                  /* the heads of that slot equal those in the store */
    uint64_t last_beyond;        /* the last number in slots that are not in use now */
    bool lists;                  /* say in check-ins which tasks the slots hold */
    bool
        metric_due; /* metric is measured, not yet reported. Not stored: measuring again is cheap */
    fed_metric metric;
    bool metric_of_regression; /* the metric's model predicts numbers */
    fed_own_metrics own;       /* of the last callback, if the coordinator takes them. Not stored */
    uint64_t own_seq;          /* the training that they are of: residual.seq; 0: none */
    uint8_t protocol;          /* the newest version that this coordinator is known to speak */
    uint32_t failures;         /* steps in a row with a passing failure */
    bool heals;                /* this step's failure will pass */
    uint32_t asked_ms;         /* the coordinator asked to wait this long; an hour at most */
    uint32_t told_ms;          /* the wait that the last check-in was answered with; 0: none */
    int64_t cache_again_ms; /* caches have failed: until this monotonic_ms do without; 0: never */
    fedclient_watch watch;
    char name[64];          /* options.name, made safe for a header; "": none */
    char computes_on[80];   /* options.computes_on, likewise */
    fedclient_slot slots[]; /* [options.slots] */
};

/** The work of one call of fedclient_step: the data that its states pass on. */
typedef struct fedclient_job {
    fedclient *client;
    fedclient_event *event;
    fed_assignment assignment;
    fed_arch arch; /* of the assignment's task */
    fedcodec codec;
    fedclient_record model, residual, pending;
    bool within; /* all values of the residual are within FEDCLIENT_VALUE_LIMIT */
} fedclient_job;

/** The largest value sent: half of what the coordinator's sum takes, since some codecs decode to
 * more than they were given. The rest of a value stays in the residual for later rounds. */
#define FEDCLIENT_VALUE_LIMIT (FEDCODEC_FOLD_LIMIT / 2)

/* exchange.c: one request */

/** An answer whose status the caller handles: 200, 202, 206, or 4xx except 401, 403, 408 and
 * 429. */
typedef struct fedclient_answer {
    int status;
    uint32_t retry_after_s; /* 0: the answer does not say */
    fed_writer body;
    char error[32], message[300]; /* of a 4xx: the coordinator's error code and sentence */
} fedclient_answer;

typedef struct fedclient_call {
    const char *base;
    fed_request kind;
    const char *query; /* "?task=1..."; NULL: none */
    const char *bearer;
    const fedclient_body *body;
    fedclient_range *range;
    size_t answer_limit;
    uint32_t hold_ms;
    bool introduces; /* send options.software; and with a bearer, the device's name */
} fedclient_call;

/**
 * Send a request and read the answer. Call fedclient_answer_free also after a failure; the body may
 * then hold the beginning of an answer, if call->range says so. After a failure that will pass (no
 * connection, 408, 429, 5xx), client->heals and client->asked_ms are set.
 */
fed_status fedclient_exchange(fedclient *client, const fedclient_call *call,
                              fedclient_answer *answer, fed_error *err) FED_CHECKED;
void fedclient_answer_free(fedclient_answer *answer);

/** A body in memory, in one or two spans. */
typedef struct fedclient_span {
    const uint8_t *data;
    size_t left;
    const uint8_t *more; /* the second span */
    size_t more_left;
} fedclient_span;
fedclient_body fedclient_body_of(fedclient_span *span);

/* addresses.c */

/** Check all addresses of options.server, and go to the first. */
fed_status fedclient_addresses_open(fedclient *client, fed_error *err) FED_CHECKED;

/** The device's identity is known: each device begins at an address of its own. */
void fedclient_addresses_spread(fedclient *client);

/** Go to the next address, where there are several. */
void fedclient_addresses_next(fedclient *client);

/** The port of the devices' listener, which is the same at each address. */
void fedclient_addresses_port(fedclient *client, uint16_t port);

/** After client->failures in a row: have all addresses failed equally often? */
bool fedclient_addresses_all_failed(const fedclient *client);

/* enrol.c */

/** Present the stored identity to the transport. FED_OK, too, if there is none yet. */
fed_status fedclient_identity_load(fedclient *client, fed_error *err) FED_CHECKED;

/** Get the next certificate if less than a third of the certificate's life is left, or if the
 * coordinator asks for it. FED_OK, too, if that can't be done now: the old certificate is still
 * valid. Errors: the platform's. */
fed_status fedclient_identity_renew(fedclient *client, fed_error *err) FED_CHECKED;

/* slots.c */

/** Read the heads of all slots. The slot that was trained last is then in use. */
fed_status fedclient_slots_load(fedclient *client, fed_error *err) FED_CHECKED;

/** Read the heads of the slot in use again, after a failed step: only its records are ever put. */
fed_status fedclient_slot_reload(fedclient *client, fed_error *err) FED_CHECKED;

/** The slot whose message may have arrived or not; NULL: the fate of every upload is known. There
 * is one such slot at most: until its message's fate is known, the device does nothing else. */
fedclient_slot *fedclient_slots_sending(fedclient *client);

/** The number of the last training of any slot. */
uint64_t fedclient_slots_last(const fedclient *client);

/** The number of the last training of the first slot. */
uint64_t fedclient_slots_first(const fedclient *client);

/** The tasks of all slots, the one that was trained last first. */
void fedclient_slots_list(const fedclient *client, fed_held held[FED_SLOTS]);

/** Use the slot of the assignment's task. A new task gets a free slot, else that of the task which
 * the assignment replaces, else the one that was trained longest ago. */
void fedclient_slot_take(fedclient *client, const fed_assignment *assignment);

/* checkin.c */

/** Ask for work, and parse the assignment's model and codec. FED_EDECLINED: this client can't do
 * the task. */
fed_status fedclient_checkin(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/* arrived.c: the bytes of an unfinished download */

typedef struct fedclient_arrived {
    fedclient_download_head head; /* offset: unused */
    fed_writer bytes;             /* from the beginning; complete with head.total bytes */
    size_t stored;                /* this many of the bytes are in the platform's store */
    unsigned pieces;              /* they are stored as this many values */
    bool unkept;                  /* the store has no room for more */
} fedclient_arrived;

/** Read the stored bytes. head.task is 0: none are stored. */
fed_status fedclient_arrived_load(fedclient *client, fedclient_arrived *arrived,
                                  fed_error *err) FED_CHECKED;
/** Store the bytes that are not stored yet, if they are worth a put. A store that can't take them
 * is no failure: they will only be downloaded again. */
void fedclient_arrived_keep(fedclient *client, fedclient_arrived *arrived);
/** Remove all bytes, also from the store. */
void fedclient_arrived_forget(fedclient *client, fedclient_arrived *arrived);
void fedclient_arrived_free(fedclient_arrived *arrived);

/** Bytes of a large model that one request fetches, and that one stored value holds. */
size_t fedclient_arrived_piece(const fedclient *client);

/* elsewhere.c: downloads that lie in a cache */

/** May this download come from a cache? The coordinator is told so, and names the address. */
bool fedclient_elsewhere_wanted(const fedclient *client, const fedclient_job *job,
                                const fedclient_arrived *arrived);

/** Did the coordinator name an address in place of the bytes? */
bool fedclient_elsewhere_is(const fedclient_arrived *arrived);

/**
 * Fetch from the cache what is missing. Afterwards arrived->bytes has the download's parts, as if
 * the coordinator had sent them.
 *
 * limit   bytes of the largest possible download
 * Errors  FED_ECANCELED; any other: the cache has failed, and *err says how
 */
fed_status fedclient_elsewhere_fetch(fedclient *client, const fedclient_job *job, size_t limit,
                                     fedclient_arrived *arrived, fed_error *err) FED_CHECKED;

/** The cache has failed: say why, forget what came from it, and do without caches for a while. */
void fedclient_elsewhere_failed(fedclient *client, fedclient_arrived *arrived, const char *why);

/* download.c */

/** Bring job->model to the assignment's version, and store it. */
fed_status fedclient_download(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/* residual.c */

/** Is the assignment's training in the residual already, and no message made of it yet? */
bool fedclient_trained(const fedclient *client, const fed_assignment *assignment);

/** Train job->model and store residual + (trained - model). After that the training can't be
 * lost. */
fed_status fedclient_train(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/** The message has been counted: subtract it from the stored residual at once, if the platform can
 * change a value in place. False: it must still be subtracted later. */
bool fedclient_settle_now(const fedclient *client, const fedclient_job *job);

/* upload.c */

/** Compress the residual into job->pending, and store job->pending. */
fed_status fedclient_encode(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/** Send the pending message and store its fate: COUNTED or REFUSED. */
fed_status fedclient_send(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/* watch.c */

/** Ask the program whether this device may take part now. FED_EBUSY: not now; FED_ECANCELED: the
 * program wants to end. The step then ends, and watch.over has the reason. */
fed_status fedclient_watch_program(fedclient *client, fed_error *err) FED_CHECKED;

/** Start the time of an assignment that has just arrived. */
void fedclient_watch_start(fedclient *client, const fed_assignment *assignment);

/* decline.c */

/** Give the slot of job->assignment back, with a reason. FED_OK, too, if the coordinator takes no
 * declines: then *wait_ms is set to the time left of the lease. */
fed_status fedclient_decline(fedclient *client, const fedclient_job *job, const char *reason,
                             uint32_t *wait_ms, fed_error *err) FED_CHECKED;

/* callback.c */

/** A copy of job->model that the callback may change, in the memory where the callback gets its
 * values. */
fed_status fedclient_callback_copy(const fedclient *client, const fedclient_job *job,
                                   fedclient_record *copy) FED_CHECKED;

/** Hand a model to the program's callback; every failure has a sentence. FED_OK, too, if the
 * callback ended early with a partly trained model: client->watch.over then has the reason. */
fed_status fedclient_callback(fedclient *client, const fedclient_job *job, fedclient_round *round,
                              fed_error *err) FED_CHECKED;

/* measure.c */

/** Measure job->model, and set client->metric, which is then due. */
fed_status fedclient_evaluate(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;
fed_status fedclient_report(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/* retry.c */

/** How long to wait after the n-th failure in a row, n from 1: 200 ms to 60 s, and longer for a
 * device that was told longer waits. Failures at several addresses count once.
 * told_ms: client->told_ms */
uint32_t fedclient_backoff_ms(const char *device, unsigned failures, uint32_t told_ms);

/** How long to wait after a refusal that only a person can change: 4 hours, +-20 %. */
uint32_t fedclient_refused_ms(const char *device);

#endif
