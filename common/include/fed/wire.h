/* The messages between device and coordinator: structs and byte layouts (docs/protocol.md). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_WIRE_H
#define FED_WIRE_H

#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"
#include "fed/error.h"
#include "fed/privacy.h"
#include "fed/sealed.h"

/** Bits of the field capabilities, for peers of protocol 2 or later. A peer ignores bits that it
 * does not know. fed/capabilities.def says what each bit means. */
enum {
#define FED_CAPABILITY(bit, name) name = 1 << (bit),
#include "fed/capabilities.def"
#undef FED_CAPABILITY
};

FED_API_BEGIN

/*
 * A message has the fields of its struct, little-endian as in fed/bytes.h, and in their order
 * unless a comment says otherwise. An integer has the width of its type. An enum is one byte. A
 * string or an envelope is a varint length and the bytes. fed_X_write appends a message to a
 * writer. fed_X_read reads a message and returns the reader's status. FED_EFORMAT: a field has a
 * value that the comment beside it does not allow. FED_ENOMEM: out of memory. *m is set only after
 * a whole message was read.
 */

enum { FED_DOWNLOADS_URL = 256 };

/** What a device must know of a task in order to train it. The table in common/messages/wire.c has
 * a line for each field. Some fields need a capability. They are 0 or "" if the coordinator did
 * not send that capability. */
typedef struct fed_task {
    uint64_t id;           /* never 0 */
    char model[4096];      /* fed/arch.h's canonical text, or a reference to it
                            * (fed/layout_reference.h) */
    char codec_up[64];     /* spec of the updates: "sbc:p=0.01" */
    uint32_t small_tensor; /* tensors with fewer values travel as one group */
    uint32_t local_steps;  /* optimizer steps a round; at least 1 */
    uint32_t batch;        /* samples a step; at least 1 */
    char optimizer[128];   /* spec: "adam", "momentum:m=0.8+clip:norm=1" (fed/optimizer_spec.h) */
    float learning_rate;   /* finite, above 0; for a spec that does not name lr */
    uint64_t seed;         /* seed of the initial weights and of the order of samples */
    /* FED_CAN_APP: a JSON object without blanks between its parts, which the task passes to the
     * program on the device. "": none. */
    char app[1024];
    /* FED_CAN_URL: where caches keep sealed downloads. It is a URL that ends with '/', to which a
     * download's name is appended. "": there are no caches. */
    char downloads[FED_DOWNLOADS_URL];
    /* FED_CAN_PERSONAL: steps with which a device trains a copy of the model for itself. 0: no
     * copy */
    uint32_t personal_steps;
    /* FED_CAN_PERSONAL: the fraction of the device's samples that it does not train on; 0 to 0.9 */
    float holdout;
    /* FED_CAN_PRIVATE_LAYERS: layers that stay on each device (fed/private_layers.h); "": none */
    char private_layers[64];
    /* FED_CAN_VARIATES: spec of the codec of SCAFFOLD's control variates, up and down; "": they
     * travel with the running statistics */
    char codec_variates[64];
} fed_task;

/** Check the URL of a cache, a task's `downloads`. The names of downloads are appended to it, so it
 * can have no query or fragment. It must have no password either, since all devices get it. ""
 * passes. FED_EINVAL: *err says what a cache's URL is. */
fed_status fed_cache_url_check(const char *url, fed_error *err) FED_CHECKED;

/** Write only the fields that need no capability. fed_assignment_write writes the others, too. */
void fed_task_write(fed_writer *w, const fed_task *task);
fed_status fed_task_read(fed_reader *r, fed_task *task) FED_CHECKED;

/** Return the capabilities that fields of a task need. A device names all of them in its check-in.
 * The coordinator repeats the capabilities that the device named, and the assignment then has the
 * fields that need them. */
uint32_t fed_task_capabilities(void);

typedef enum fed_role { FED_ROLE_TRAIN = 0, FED_ROLE_EVALUATE = 1 } fed_role;

enum {
    FED_ASSIGNMENT_MOST = 8192, /* the most bytes of an assignment; no task needs more */
    FED_ASSIGNMENT_SHORT = 4096 /* what a device without FED_CAN_LONG reads of an assignment */
};

enum { FED_SLOTS = 8 }; /* the most tasks for which a device keeps a model and a residual */

/** A task that a device takes part in, and the version of its model that the device holds. */
typedef struct fed_held {
    uint64_t task; /* 0: no task */
    uint32_t version;
} fed_held;

/** Device -> coordinator: asks for work, and says which model the device holds. */
typedef struct fed_checkin {
    /* Protocol version of this message and of its answer. Writing: 0 means FED_PROTOCOL. Reading:
     * FED_EVERSION unless it is FED_PROTOCOL_OLDEST to FED_PROTOCOL. */
    uint8_t protocol;
    fed_role role;
    uint32_t hold_ms; /* how long the coordinator may hold back its answer if there is no work */
    /* The device's tasks, each once, the most recently trained first. Entries after the last task
     * have task 0. Only the first entry is sent here. With FED_CAN_TASKS a byte with the number of
     * the others and these follow the field slots. */
    fed_held held[FED_SLOTS];
    /* Fields since protocol 2: */
    uint32_t capabilities; /* bits of fed/capabilities.def */
    uint32_t samples;      /* number of samples on the device; 0: it has not trained yet */
    /* Field with FED_CAN_TASKS: */
    uint8_t slots; /* how many tasks the device has room for, 1 to FED_SLOTS; 1 if not sent */
} fed_checkin;

/** Find the entry of m->held for a task. NULL: the device does not hold the task. */
const fed_held *fed_checkin_held(const fed_checkin *m, uint64_t task);
/** Return the number of tasks that the device holds. */
unsigned fed_checkin_count(const fed_checkin *m);

void fed_checkin_write(fed_writer *w, const fed_checkin *m);
fed_status fed_checkin_read(fed_reader *r, fed_checkin *m) FED_CHECKED;

typedef enum fed_action {
    FED_ACTION_WAIT = 0,     /* ask again after retry_ms */
    FED_ACTION_TRAIN = 1,    /* get this version of the model, train, upload in time */
    FED_ACTION_EVALUATE = 2, /* get this version of the model, measure it, report */
    FED_ACTION_DONE = 3      /* the device's task is finished; version is that of its last model */
} fed_action;

typedef enum fed_wait_reason {
    FED_WAIT_NO_TASK = 0,  /* no running task is for this device */
    FED_WAIT_FULL = 1,     /* no slot of the round is free, or other devices come first */
    FED_WAIT_REPORTED = 2, /* this device's update is counted; the round is still open */
    FED_WAIT_NO_MODEL = 3, /* evaluator: every model has been evaluated */
    /* the last task is finished; the device knows this already, or took no part in it */
    FED_WAIT_FINISHED = 4,
    /* this device has declined each running task that is for it; sent only to devices with
     * FED_CAN_DECLINE */
    FED_WAIT_DECLINED = 5,
    /* this device has no participation left in any running task that is for it; sent only to
     * devices with FED_CAN_PRIVATE */
    FED_WAIT_SPENT = 6
} fed_wait_reason;

/** Coordinator -> device: the answer to a check-in. */
typedef struct fed_assignment {
    fed_action action;
    /* Fields with WAIT: */
    fed_wait_reason reason;
    uint32_t retry_ms;
    /* Fields with TRAIN, EVALUATE and DONE: */
    uint32_t round;       /* TRAIN: the round; else 0 */
    uint32_t version;     /* version of the model to work on: rounds committed into it */
    uint64_t digest;      /* fed_digest of that model's values */
    uint64_t lease;       /* TRAIN: identifies this device's slot in the round; else 0 */
    uint32_t deadline_ms; /* TRAIN: milliseconds from now; a later update is refused */
    fed_task task;
    /* Fields since protocol 2. Except with WAIT, the fields of the task that need one of these
     * capabilities follow. */
    uint32_t capabilities; /* bits of fed/capabilities.def */
    /* Field with FED_CAN_TASKS, except with WAIT: the task that the device should drop to make
     * room for this one, from the check-in's list; 0: the device has room. */
    uint64_t replaces;
    /* Field with FED_CAN_PRIVATE, except with WAIT: what a private task asks of the device. */
    fed_privacy privacy;
} fed_assignment;

/** Write an assignment. protocol: the version of the check-in. */
void fed_assignment_write(fed_writer *w, uint8_t protocol, const fed_assignment *m);
fed_status fed_assignment_read(fed_reader *r, uint8_t protocol, fed_assignment *m) FED_CHECKED;

typedef enum fed_part_kind {
    FED_PART_SNAPSHOT = 1,
    FED_PART_DELTA = 2,
    FED_PART_PATCH = 3, /* sent only to a device that asked for patches */
    /* Sent only to a device that asked for addresses of caches, as the only part. The envelope is
     * a sequence of fed_address. The bytes at these addresses, joined in order, are the parts of
     * the download. */
    FED_PART_CACHE = 4
} fed_part_kind;

/** Coordinator -> device: a part of a model download. The device applies the parts in order. */
typedef struct fed_part {
    fed_part_kind kind;
    /* Versions of the model. A snapshot has from = to. A delta has from < to. A patch has from <
     * to, or from = to if it starts from values that are all 0. FED_PART_CACHE has the versions of
     * the parts at its addresses, from <= to. */
    uint32_t from, to;
    const uint8_t *envelope; /* a fedcodec envelope or patch; it points into the reader's bytes */
    uint64_t envelope_len;
} fed_part;

void fed_part_write(fed_writer *w, const fed_part *m);
fed_status fed_part_read(fed_reader *r, fed_part *m) FED_CHECKED;

/** The address of a piece of a download in caches, where its bytes are sealed (fed/sealed.h). */
typedef struct fed_address {
    uint8_t key[FED_SEALED_KEY];
    uint64_t len; /* bytes of the piece; at least 1 */
} fed_address;

enum { FED_ADDRESS_BYTES = FED_SEALED_KEY + 8, FED_ADDRESSES = 24 /* the most of a download */ };

void fed_address_write(fed_writer *w, const fed_address *m);
fed_status fed_address_read(fed_reader *r, fed_address *m) FED_CHECKED;

/** Device -> coordinator: the head of an update. A list of custom metrics may follow
 * (fed/own_metrics.h). The rest of the body is the envelope. */
typedef struct fed_update {
    uint64_t task;
    uint32_t round;
    uint64_t lease;
    uint32_t samples; /* samples on the device: the update's weight in the average; at least 1 */
    /* Mean training loss over the local steps; finite. With FED_CAN_NO_LOSS it may be NaN: none. */
    float loss;
} fed_update;

void fed_update_write(fed_writer *w, const fed_update *m);
fed_status fed_update_read(fed_reader *r, fed_update *m) FED_CHECKED;

enum {
    FED_PIECE_BYTES = 1 << 20, /* the most bytes of a message that one piece carries */
    /* a piece that is neither empty nor the last has at least total / FED_PIECES bytes */
    FED_PIECES = 16384
};

/** Device -> coordinator: the head of a piece of an update's message, which consists of fed_update,
 * perhaps custom metrics, and the envelope. The rest of the body is the piece's bytes. A piece
 * without bytes asks how many have arrived. */
typedef struct fed_piece {
    /* as in the update: */
    uint64_t task;
    uint32_t round;
    uint64_t lease;
    uint64_t digest; /* fed_digest_bytes of the whole message */
    uint64_t total;  /* bytes of the whole message */
    uint64_t offset; /* offset of the piece in the message; at most total */
} fed_piece;

void fed_piece_write(fed_writer *w, const fed_piece *m);
fed_status fed_piece_read(fed_reader *r, fed_piece *m) FED_CHECKED;

/** Device -> coordinator: this device can't serve the task. Its slot becomes free at once. */
typedef struct fed_decline {
    /* as in the assignment: */
    uint64_t task;
    uint32_t round;
    uint64_t lease;
    /* a sentence for people, UTF-8, such as "samples are 784 values, the model takes 3072". "":
     * the device can't train now, and may be asked again. */
    char reason[256];
} fed_decline;

void fed_decline_write(fed_writer *w, const fed_decline *m);
fed_status fed_decline_read(fed_reader *r, fed_decline *m) FED_CHECKED;

/** The value of fed_metric.correct where there is none. */
#define FED_NO_CORRECT UINT32_MAX

/** Device -> coordinator, from an evaluator: the result of evaluating a model. A list of custom
 * metrics may follow (fed/own_metrics.h). */
typedef struct fed_metric {
    uint64_t task;
    uint32_t version;
    uint32_t samples; /* samples that the device tested; at least 1 */
    /* Samples classified correctly; at most samples. With FED_CAN_NO_ACCURACY it may be
     * FED_NO_CORRECT: the evaluator does not count them. */
    uint32_t correct;
    float loss; /* mean over the samples; finite, or NaN as in fed_update */
} fed_metric;

void fed_metric_write(fed_writer *w, const fed_metric *m);
fed_status fed_metric_read(fed_reader *r, fed_metric *m) FED_CHECKED;

/** The kinds of requests that a device sends to a coordinator. Each kind has a URL path of its
 * own. */
typedef enum fed_request {
    FED_REQUEST_ENROL,
    FED_REQUEST_RENEW,
    FED_REQUEST_CHECKIN,
    FED_REQUEST_MODEL, /* sent as GET, with a query; all but this and LAYOUT are POST */
    FED_REQUEST_UPDATE,
    FED_REQUEST_PIECE,
    FED_REQUEST_METRIC,
    FED_REQUEST_DECLINE,
    FED_REQUEST_WORKER_GROUP,
    FED_REQUEST_LAYOUT /* sent as GET, with a query */
} fed_request;

#define FED_PATH_ENROL        "/v1/enrol"
#define FED_PATH_RENEW        "/v1/renew"
#define FED_PATH_CHECKIN      "/v1/checkin"
#define FED_PATH_MODEL        "/v1/model"
#define FED_PATH_UPDATE       "/v1/update"
#define FED_PATH_PIECE        "/v1/piece"
#define FED_PATH_METRIC       "/v1/metric"
#define FED_PATH_DECLINE      "/v1/decline"
#define FED_PATH_WORKER_GROUP "/v1/gang"
#define FED_PATH_LAYOUT       "/v1/layout"

/** The path from which caches fetch sealed downloads. The download's name follows
 * (fed/sealed.h). */
#define FED_PATH_BLOB "/v1/blob/"

FED_API_END

#endif
