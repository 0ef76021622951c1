/* The messages between a device and the coordinator: one struct a message, one byte layout
 * (docs/protocol.md). */
#ifndef FED_WIRE_H
#define FED_WIRE_H

#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"

FED_API_BEGIN

/*
 * Each message is fields in the order of its struct, little-endian as in fed/bytes.h: integers of
 * their own width, enums as u8, strings and envelopes as a varint length and bytes. fed_X_write
 * appends one; fed_X_read takes one off a reader and returns its status, FED_EFORMAT for an enum
 * value, a string or a number that is not allowed; what is allowed stands beside the field.
 */

/** What a device needs to know of a task in order to train it. The table in common/wire.c has a
 * line for each field. A field that needs a capability is 0 or "" where the coordinator did not
 * send it. */
typedef struct fed_task {
    uint64_t id;           /* never 0 */
    char model[4096];      /* fed/arch.h's canonical text */
    char codec_up[64];     /* spec of the updates: "sbc:p=0.01" */
    uint32_t small_tensor; /* tensors with fewer values travel as one group */
    uint32_t local_steps;  /* optimizer steps a round; at least 1 */
    uint32_t batch;        /* samples a step; at least 1 */
    char optimizer[128];   /* spec: "adam", "momentum:m=0.8+clip:norm=1" (fed/optimizer_spec.h) */
    float learning_rate;   /* finite, above 0; for a spec that does not name lr */
    uint64_t seed;
} fed_task;

/** The fields that every peer knows. Those that need a capability travel in fed_assignment only. */
void fed_task_write(fed_writer *w, const fed_task *task);
fed_status fed_task_read(fed_reader *r, fed_task *task) FED_CHECKED;

/** The capabilities that fields of a task need: a device says them in its check-in, and a
 * coordinator says those again that the device has said. Then the assignment has these fields. */
uint32_t fed_task_capabilities(void);

typedef enum fed_role { FED_ROLE_TRAIN = 0, FED_ROLE_EVALUATE = 1 } fed_role;

/** What a peer of protocol 2 or later says it can do beyond what its version asks of everybody. A
 * bit that the other does not know means nothing to it. */
enum {
    FED_CAN_PIECES = 1,  /* coordinator: takes an update in pieces, and says how much it has */
    FED_CAN_PATCH = 2,   /* device: reads patches; coordinator: sends them to who asks for them */
    FED_CAN_DECLINE = 4, /* device: knows FED_WAIT_DECLINED; coordinator: takes fed_decline */
    FED_RENEW = 8        /* coordinator: this device's certificate is of an old CA; renew it now */
};

/** Device -> coordinator: here I am, this is what I hold. */
typedef struct fed_checkin {
    uint8_t protocol; /* of the message and of its answer; to write: 0 is FED_PROTOCOL. Reading one
                         that is not FED_PROTOCOL_OLDEST to FED_PROTOCOL is FED_EVERSION */
    fed_role role;
    uint32_t hold_ms; /* the coordinator may keep the answer back this long while there is nothing
                         to do */
    uint64_t task;    /* of the model held; 0: none */
    uint32_t version; /* of the model held */
    /* these from protocol 2 on */
    uint32_t capabilities; /* FED_CAN_... */
    uint32_t samples;      /* that its data holds; 0: it has not trained yet */
} fed_checkin;

void fed_checkin_write(fed_writer *w, const fed_checkin *m);
fed_status fed_checkin_read(fed_reader *r, fed_checkin *m) FED_CHECKED;

typedef enum fed_action {
    FED_ACTION_WAIT = 0,     /* come back after retry_ms */
    FED_ACTION_TRAIN = 1,    /* bring the model to `version`, train, upload before the deadline */
    FED_ACTION_EVALUATE = 2, /* bring the model to `version`, measure it, report */
    FED_ACTION_DONE = 3      /* the task is finished; `version` is its last model */
} fed_action;

typedef enum fed_wait_reason {
    FED_WAIT_NO_TASK = 0,  /* nothing is scheduled */
    FED_WAIT_FULL = 1,     /* this round has all the devices it wants, or others come first */
    FED_WAIT_REPORTED = 2, /* this device's update is in; the round is still open */
    FED_WAIT_NO_MODEL = 3, /* evaluator: every model has been evaluated */
    FED_WAIT_FINISHED =
        4, /* the last task is finished, which this device knows or took no part in */
    FED_WAIT_DECLINED =
        5 /* this device has declined the task that runs; only for FED_CAN_DECLINE */
} fed_wait_reason;

/** Coordinator -> device: the answer to a check-in. */
typedef struct fed_assignment {
    fed_action action;
    /* these two are sent with WAIT only */
    fed_wait_reason reason;
    uint32_t retry_ms;
    /* these with TRAIN, EVALUATE and DONE only */
    uint32_t round;       /* TRAIN: the round; else 0 */
    uint32_t version;     /* of the model to work on: the number of rounds committed into it */
    uint64_t digest;      /* fed_digest of that model's values */
    uint64_t lease;       /* TRAIN: names this device's place in the round; else 0 */
    uint32_t deadline_ms; /* TRAIN: from now; an update after it is refused */
    fed_task task;
    /* from protocol 2 on; behind it, except with WAIT, the task's fields that need a capability */
    uint32_t capabilities; /* FED_CAN_... */
} fed_assignment;

/** protocol: the check-in's. */
void fed_assignment_write(fed_writer *w, uint8_t protocol, const fed_assignment *m);
fed_status fed_assignment_read(fed_reader *r, uint8_t protocol, fed_assignment *m) FED_CHECKED;

typedef enum fed_part_kind {
    FED_PART_SNAPSHOT = 1,
    FED_PART_DELTA = 2,
    FED_PART_PATCH = 3 /* only for those who asked for it */
} fed_part_kind;

/** Coordinator -> device: a model download is a run of parts, to be applied in order. */
typedef struct fed_part {
    fed_part_kind kind;
    uint32_t from, to;       /* versions; a snapshot's from equals its to, a delta's is below it, a
                                patch's is below it or, for one from all values 0, equals it */
    const uint8_t *envelope; /* a fedcodec envelope, of a patch a fedcodec patch; in the reader's
                                bytes */
    uint64_t envelope_len;
} fed_part;

void fed_part_write(fed_writer *w, const fed_part *m);
fed_status fed_part_read(fed_reader *r, fed_part *m) FED_CHECKED;

/** Device -> coordinator: head of an update; the envelope follows it to the end of the body. */
typedef struct fed_update {
    uint64_t task;
    uint32_t round;
    uint64_t lease;
    uint32_t samples; /* this device's weight in the average: how many samples its data holds. At
                         least 1. */
    float loss;       /* mean training loss over the local steps; finite */
} fed_update;

void fed_update_write(fed_writer *w, const fed_update *m);
fed_status fed_update_read(fed_reader *r, fed_update *m) FED_CHECKED;

enum {
    FED_PIECE_BYTES = 1 << 20, /* most bytes of a message that one piece carries */
    FED_PIECES = 16384         /* and what is less than this part of a message is not kept */
};

/** Device -> coordinator: head of a piece of an update's message, which is head and envelope. The
 * piece's bytes follow to the end of the body; none: just a question how many have arrived. */
typedef struct fed_piece {
    uint64_t task; /* these three as in the update */
    uint32_t round;
    uint64_t lease;
    uint64_t digest; /* fed_digest_bytes of the whole message */
    uint64_t total;  /* its bytes */
    uint64_t offset; /* where in it these bytes begin; at most total */
} fed_piece;

void fed_piece_write(fed_writer *w, const fed_piece *m);
fed_status fed_piece_read(fed_reader *r, fed_piece *m) FED_CHECKED;

/** Device -> coordinator: I can't serve this task. Its place is for others at once. */
typedef struct fed_decline {
    uint64_t task; /* these three as in the assignment */
    uint32_t round;
    uint64_t lease;
    char reason[256]; /* a sentence for people, UTF-8: "samples are 784 values, the model takes
                         3072"; "": it can't go on now, and may be asked again */
} fed_decline;

void fed_decline_write(fed_writer *w, const fed_decline *m);
fed_status fed_decline_read(fed_reader *r, fed_decline *m) FED_CHECKED;

/** Evaluating device -> coordinator: how good a model is. */
typedef struct fed_metric {
    uint64_t task;
    uint32_t version;
    uint32_t samples; /* tested; at least 1 */
    uint32_t correct; /* at most samples */
    float loss;       /* mean; finite */
} fed_metric;

void fed_metric_write(fed_writer *w, const fed_metric *m);
fed_status fed_metric_read(fed_reader *r, fed_metric *m) FED_CHECKED;

FED_API_END

#endif
