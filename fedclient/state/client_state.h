/* What a client knows: itself, the work of one step, its slots, and an unfinished download. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_CLIENT_STATE_H
#define FEDCLIENT_CLIENT_STATE_H

#include <stdbool.h>

#include "fed/hash.h"
#include "fed/own_metrics.h"
#include "fedclient/fedclient.h"
#include "fedclient/state/record.h"
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

/* partial_download.c: the bytes of an unfinished download */

typedef struct fedclient_partial_download {
    fedclient_download_head head; /* offset: unused */
    fed_writer bytes;             /* from the beginning; complete with head.total bytes */
    size_t stored;                /* this many of the bytes are in the platform's store */
    unsigned pieces;              /* they are stored as this many values */
    bool unkept;                  /* the store has no room for more */
} fedclient_partial_download;

/** Read the stored bytes. head.task is 0: none are stored. */
fed_status fedclient_partial_download_load(fedclient *client, fedclient_partial_download *partial,
                                           fed_error *err) FED_CHECKED;
/** Store the bytes that are not stored yet, if they are worth a put. A store that can't take them
 * is no failure: they will only be downloaded again. */
void fedclient_partial_download_keep(fedclient *client, fedclient_partial_download *partial);
/** Remove all bytes, also from the store. */
void fedclient_partial_download_forget(fedclient *client, fedclient_partial_download *partial);
void fedclient_partial_download_free(fedclient_partial_download *partial);

/** Bytes of a large model that one request fetches, and that one stored value holds. */
size_t fedclient_partial_download_piece(const fedclient *client);

#endif
