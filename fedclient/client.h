/* Inside the client library: the client, one turn of it, and what its files offer each other. */
#ifndef FEDCLIENT_CLIENT_H
#define FEDCLIENT_CLIENT_H

#include <stdbool.h>

#include "fed/hash.h"
#include "fedclient/fedclient.h"
#include "fedclient/record.h"
#include "fedcodec/codec.h"

enum { FEDCLIENT_URL = 320 };

/** Until when what the program does is wanted (watch.c). Times are the platform's monotonic_ms. */
typedef struct fedclient_watch {
    int64_t deadline_ms; /* INT64_MAX: there is none */
    int64_t look_ms;     /* when to ask the program again, ... */
    int64_t ask_ms;      /* ... and when the coordinator; INT64_MAX: never */
    int64_t every_ms;    /* between two questions to the coordinator */
    fed_error over;      /* its status is FED_OK while it is wanted */
} fedclient_watch;

struct fedclient {
    fedclient_options options;
    char front[FEDCLIENT_URL];   /* "https://host:8443" */
    char devices[FEDCLIENT_URL]; /* the same host, the devices' port; "" before enrolment */
    char device[FED_SHA256_HEX]; /* "" before enrolment */
    int64_t expires_s;           /* the certificate's last second, Unix */
    int64_t renew_s;             /* from when on to ask for the next one */
    bool renew_asked;            /* the coordinator asks for it now, */
    int64_t renew_again_s;       /* which is heard again from then on */
    bool known;                  /* the three heads below are those in the store */
    fedclient_model_head model;  /* all 0: none */
    fedclient_residual_head residual;
    fedclient_pending_head pending;
    bool metric_due; /* measured, not yet reported; in memory only: measuring again costs little */
    fed_metric metric;
    bool metric_of_regression; /* its model predicts numbers */
    uint8_t protocol;          /* the newest that this coordinator speaks too, as far as is known */
    uint32_t failures;         /* turns in a row that time has to heal */
    bool heals;                /* this turn's failure is of that kind */
    uint32_t asked_ms;         /* ... and the coordinator asked to wait so long; an hour at most */
    fedclient_watch watch;
    char name[64]; /* fit for a header; "": none */
};

/** One turn of step(): what its stages hand on. */
typedef struct fedclient_turn {
    fedclient *client;
    fedclient_event *event;
    fed_assignment assignment;
    fed_arch arch; /* of the assignment's task */
    fedcodec codec;
    fedclient_record model, residual, pending;
    bool within; /* the residual is known to be within the limit */
} fedclient_turn;

/** Half of what the coordinator's sum takes: some codecs decode to more than they were given. What
 * is beyond stays owed, for later rounds. */
#define FEDCLIENT_VALUE_LIMIT (FEDCODEC_FOLD_LIMIT / 2)

/* exchange.c: one request */

/** An answer whose status the caller has to judge: 200, 202, 206, or 4xx but for 401, 403, 408 and
 * 429. */
typedef struct fedclient_answer {
    int status;
    uint32_t retry_after_s; /* 0: it does not say */
    fed_writer body;
    char error[32], message[300]; /* of a 4xx: the coordinator's words */
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
    bool introduces; /* it says which software asks; and with a bearer, the device's name */
} fedclient_call;

/**
 * Send a request and read the answer; fedclient_answer_free in every case. After a failure the
 * body may hold the beginning of an answer, if call->range says so. Where time can heal a
 * failure (no connection, 408, 429, 5xx), client->heals and asked_ms are set beside the error.
 */
fed_status fedclient_exchange(fedclient *client, const fedclient_call *call,
                              fedclient_answer *answer, fed_error *err) FED_CHECKED;
void fedclient_answer_free(fedclient_answer *answer);

/** A body that lies in memory, in one place or in two. */
typedef struct fedclient_span {
    const uint8_t *data;
    size_t left;
    const uint8_t *more; /* what follows */
    size_t more_left;
} fedclient_span;
fedclient_body fedclient_body_of(fedclient_span *span);

/* enrol.c */

/** Present the stored identity to the transport. FED_OK, too, where there is none yet. */
fed_status fedclient_identity_load(fedclient *client, fed_error *err) FED_CHECKED;

/** Where less than a third of the certificate's life is left, or the coordinator asks for it, get
 * the next one. Where that can't be done now, FED_OK as well: the old one is still good. An error
 * is the platform's. */
fed_status fedclient_identity_renew(fedclient *client, fed_error *err) FED_CHECKED;

/* checkin.c */

/** Ask for work. What is asked for is checked: the model is parsed, the codec known; FED_EDECLINED
 * where this client can't do that. */
fed_status fedclient_checkin(fedclient *client, fedclient_turn *turn, fed_error *err) FED_CHECKED;

/* arrived.c: what has arrived of a download that is not complete */

typedef struct fedclient_arrived {
    fedclient_download_head head; /* offset: unused */
    fed_writer bytes;             /* from the beginning; complete when there are head.total */
    size_t stored;                /* of them, in the platform's store, ... */
    unsigned pieces;              /* ... in so many values */
    bool unkept;                  /* the store has no room for them */
} fedclient_arrived;

/** Read what is stored: head.task is 0 where that is nothing. */
fed_status fedclient_arrived_load(fedclient *client, fedclient_arrived *arrived,
                                  fed_error *err) FED_CHECKED;
/** Store what is not stored yet, if it is worth a put. It costs nothing but traffic where the store
 * can't take it: so that is no failure. */
void fedclient_arrived_keep(fedclient *client, fedclient_arrived *arrived);
/** Remove all of it, from the store too. */
void fedclient_arrived_forget(fedclient *client, fedclient_arrived *arrived);
void fedclient_arrived_free(fedclient_arrived *arrived);

/** Bytes that one request fetches of a large model, and one stored value holds. */
size_t fedclient_arrived_piece(const fedclient *client);

/* download.c */

/** Bring turn->model to the assignment's version, and store it. */
fed_status fedclient_download(fedclient *client, fedclient_turn *turn, fed_error *err) FED_CHECKED;

/* residual.c */

/** Is the assignment's training in the residual already, with no message made of it? */
bool fedclient_trained(const fedclient *client, const fed_assignment *assignment);

/** Train turn->model and store residual + (trained - model): from then on it can't be lost. */
fed_status fedclient_train(fedclient *client, fedclient_turn *turn, fed_error *err) FED_CHECKED;

/** The message has been counted: take it off the stored residual there and then, where the platform
 * lets a value be changed in place. False: it is still to be subtracted. */
bool fedclient_settle_now(const fedclient *client, const fedclient_turn *turn);

/* upload.c */

/** Compress the residual into turn->pending, and store that. */
fed_status fedclient_encode(fedclient *client, fedclient_turn *turn, fed_error *err) FED_CHECKED;

/** Send what is pending and store what became of it: COUNTED or REFUSED. */
fed_status fedclient_send(fedclient *client, fedclient_turn *turn, fed_error *err) FED_CHECKED;

/* watch.c */

/** Ask the program whether this device may take part now. FED_EBUSY: not now; FED_ECANCELED: the
 * program wants to end. The turn is over then, and watch.over says so. */
fed_status fedclient_watch_program(fedclient *client, fed_error *err) FED_CHECKED;

/** An assignment has come: its time runs from now on. */
void fedclient_watch_start(fedclient *client, const fed_assignment *assignment);

/* decline.c */

/** Give the place of turn->assignment back, for that reason. FED_OK, too, where the coordinator
 * takes no declines: then *wait_ms is set to what is left of the lease. */
fed_status fedclient_decline(fedclient *client, const fedclient_turn *turn, const char *reason,
                             uint32_t *wait_ms, fed_error *err) FED_CHECKED;

/* callback.c */

/** Hand a model to the program's callback, with a sentence for every failure. FED_OK where it ended
 * early with what it had trained by then, too: client->watch.over says so. */
fed_status fedclient_callback(fedclient *client, const fedclient_turn *turn, fedclient_round *round,
                              fed_error *err) FED_CHECKED;

/* measure.c */

/** Measure turn->model; client->metric is then due. */
fed_status fedclient_evaluate(fedclient *client, fedclient_turn *turn, fed_error *err) FED_CHECKED;
fed_status fedclient_report(fedclient *client, fedclient_turn *turn, fed_error *err) FED_CHECKED;

/* retry.c */

/** How long to wait after the n-th failure in a row, n from 1: 200 ms to 60 s. */
uint32_t fedclient_backoff_ms(const char *device, unsigned failures);

/** How long to wait after a refusal that time alone does not heal: 4 hours, +-20 %. */
uint32_t fedclient_refused_ms(const char *device);

#endif
