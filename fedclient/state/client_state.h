/* A client's state: its identity, the work of one step, its slots, and an unfinished download. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_CLIENT_STATE_H
#define FEDCLIENT_CLIENT_STATE_H

#include <stdbool.h>

#include "fed/hash.h"
#include "fed/own_metrics.h"
#include "fed/private_layers.h"
#include "fed/small.h"
#include "fedclient/fedclient.h"
#include "fedclient/state/record.h"
#include "fedcodec/codec.h"

enum { FEDCLIENT_URL = 320 };

/** When to check whether the result of a running callback is still wanted (watch.c). Times are the
 * platform's monotonic_ms. */
typedef struct fedclient_watch {
    int64_t deadline_ms; /* INT64_MAX: none */
    int64_t look_ms;     /* when to call may_train again */
    int64_t ask_ms;      /* when to ask the coordinator again; INT64_MAX: never */
    int64_t every_ms;    /* time between two questions to the coordinator */
    fed_error over;      /* FED_OK while the result is wanted; else why it is not */
} fedclient_watch;

/** The state of one task: the heads of its stored records. */
typedef struct fedclient_slot {
    unsigned number;            /* from 0; all but 0 are part of the keys of the slot's records */
    fedclient_model_head model; /* here and in the next five: all 0 if no record is stored */
    fedclient_residual_head residual;
    fedclient_pending_head pending;
    fedclient_layout_head layout;
    fedclient_own_head own;
    fedclient_personal_head personal;
    uint64_t faulty; /* task of the last fault that may pass; 0: none; not stored */
    unsigned faults; /* faults in a row of the task `faulty`; not stored */
} fedclient_slot;

struct fedclient {
    fedclient_options options;
    char front[FEDCLIENT_URL];   /* "https://host:8443" */
    char devices[FEDCLIENT_URL]; /* the same host, the devices' port; "" before enrolment */
    unsigned addresses;
    unsigned address;            /* index of `front` in options.server */
    uint16_t devices_port;       /* 0 before enrolment */
    bool unreached;              /* the last request got no answer, or 5xx */
    char device[FED_SHA256_HEX]; /* "" before enrolment */
    char *token;                 /* for a new enrolment if the device is refused; NULL: none */
    bool refused;                /* the last request was refused because of the device's identity */
    bool forbidden;              /* the answer to the last request had status 401 or 403 */
    int64_t begins_s, expires_s; /* validity of the certificate, Unix seconds */
    int64_t renew_s;             /* when to ask for the next certificate, Unix seconds */
    bool renew_asked;            /* the next step should renew the certificate */
    int64_t renew_again_s;       /* renew_asked is ignored until this Unix time */
    fedclient_slot *slot;
    bool steps;           /* a step is under way, so callbacks may run */
    bool known;           /* the heads in *slot equal those in the store */
    uint64_t last_beyond; /* largest training number in slots that options.slots leaves out */
    bool lists;           /* check-ins list the tasks that the slots hold */
    bool heard;           /* a check-in was answered since the client was opened */
    bool restart_helps;   /* a restarted device is asked again for declined tasks */
    /* The metric is measured, but not yet reported. It is not stored: it can be measured again. */
    bool metric_due;
    fed_metric metric;
    bool metric_of_regression; /* the model predicts numbers */
    fed_own_metrics own;       /* custom metrics of the last callback; not stored */
    uint64_t own_seq;          /* residual.seq of the training that "own" belongs to; 0: none */
    uint64_t own_task; /* "own" is of this task's personal model, and goes with its next update */
    uint64_t own_declined; /* the program has declined to make this task's personal models */
    bool asks_end;     /* a task whose end this device knows is asked about again, if its personal
                    * model is older than that */
    uint8_t protocol;  /* version to speak: lowered if the coordinator refuses it */
    uint32_t failures; /* failures in a row that may pass */
    uint32_t silences; /* failures among `failures` in which no byte moved */
    uint64_t logged;   /* digest of the last failure's text; 0: the last step succeeded */
    bool heals;        /* this step's failure may pass */
    uint32_t asked_ms; /* wait that the coordinator asked for, an hour at most */
    uint32_t told_ms;  /* the wait in the answer to the last check-in; 0: none */
    int64_t cache_again_ms; /* no cache is asked before this monotonic_ms; 0: no limit */
    fedclient_watch watch;
    char name[64];          /* options.name, made safe for a header; "": none */
    char computes_on[80];   /* options.computes_on, made safe for a header; "": none */
    fedclient_slot slots[]; /* [options.slots] */
};

/** The work of one call of fedclient_step. */
typedef struct fedclient_job {
    fedclient *client;
    fedclient_event *event;
    fed_assignment assignment;
    fed_arch arch; /* of the assignment's task */
    /* With private layers: what travels, and what stays. Else all 0, and all of `arch` travels. */
    fed_private_layers split;
    float *own;        /* float32[split.own]: private layers before this training; NULL: not yet */
    bool own_is_new;   /* they are the task's initial values */
    fedcodec codec[2]; /* the second one is for control variates, if the task has one */
    fedclient_record model, residual, pending;
    bool within; /* the residual's values are known to be within FEDCLIENT_VALUE_LIMIT */
} fedclient_job;

/** Has the job's task private layers? A small build knows none. */
static inline bool fedclient_has_own(const fedclient_job *job) {
    return !FED_SMALL && job->split.stays != NULL;
}

/** The layout of what travels: of the stored model, of the residual and of messages. */
static inline const fed_layout *fedclient_travels(const fedclient_job *job) {
    return fedclient_has_own(job) ? &job->split.shared : &job->arch.layout;
}

/** The largest magnitude of a value in an update: half of what the coordinator's sum allows, since
 * some codecs decode to larger values than they encoded. The excess stays in the residual. */
#define FEDCLIENT_VALUE_LIMIT (FEDCODEC_FOLD_LIMIT / 2)

/* The following functions are in slots.c. */

/** Read the heads of all slots. The slot that was trained last is then in use. */
fed_status fedclient_slots_load(fedclient *client, fed_error *err) FED_CHECKED;

/** After a failed step, read the heads of the slot in use again. Other slots' records have not
 * changed. */
fed_status fedclient_slot_reload(fedclient *client, fed_error *err) FED_CHECKED;

/** The slot whose message may or may not have arrived; NULL: the fate of every message is known.
 * There is at most one such slot, since the device does nothing else until the fate is known. */
fedclient_slot *fedclient_slots_sending(fedclient *client);

/** The number of the last training of any slot. */
uint64_t fedclient_slots_last(const fedclient *client);

/** The number of the last training of the first slot. */
uint64_t fedclient_slots_first(const fedclient *client);

/** List the tasks of all slots. The task that was trained last comes first. */
void fedclient_slots_list(const fedclient *client, fed_held held[FED_SLOTS]);

/** Use the slot of the assignment's task. A new task gets a free slot; if none is free, the slot of
 * another task. */
void fedclient_slot_take(fedclient *client, const fed_assignment *assignment);

/* partial_download.c: the bytes of an unfinished download. */

typedef struct fedclient_partial_download {
    fedclient_download_head head;
    fed_writer bytes; /* the first bytes of the answer, head.total at most */
    size_t stored;    /* this many of the bytes are in the platform's store */
    unsigned pieces;  /* number of values of the store that hold the stored bytes */
    bool unkept;      /* a put has failed: store no more bytes */
} fedclient_partial_download;

/** Read the stored bytes of a download. head.task is 0 if none are stored. */
fed_status fedclient_partial_download_load(fedclient *client, fedclient_partial_download *partial,
                                           fed_error *err) FED_CHECKED;
/** Store the bytes that are not stored yet, if they are enough to be worth a put. A full store is
 * no failure, since the bytes can be downloaded again. */
void fedclient_partial_download_keep(fedclient *client, fedclient_partial_download *partial);
/** Remove all bytes, also from the store. */
void fedclient_partial_download_forget(fedclient *client, fedclient_partial_download *partial);
void fedclient_partial_download_free(fedclient_partial_download *partial);

/** The most bytes of a large model that one request fetches, and that one stored value holds. */
size_t fedclient_partial_download_piece(const fedclient *client);

#endif
