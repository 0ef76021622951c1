/* What the coordinator knows of a task. Of the other folders of the coordinator this one includes
 * strategies/ only, which includes none. */
#ifndef FEDSERVER_TASK_H
#define FEDSERVER_TASK_H

#include <stdint.h>

#include "fed/optimizer_spec.h"
#include "fed/wire.h"
#include "fedcodec/codec.h"
#include "fedserver/operator.h"
#include "fedserver/strategies/strategy.h"

/** Who gets a round's places. */
typedef enum fedserver_selection {
    FEDSERVER_SELECT_UNIFORM = 0,    /* every device with the same chance */
    FEDSERVER_SELECT_WEIGHTED = 1,   /* in proportion to its samples */
    FEDSERVER_SELECT_ROUND_ROBIN = 2 /* who has waited longest */
} fedserver_selection;

/** What a task says otherwise from a round on, until the next phase: a member for each key that a
 * phase may change, such as codec_up or local_steps (fedserver/task_keys.def). */
typedef struct fedserver_phase {
    uint32_t round; /* the first */
#define FEDSERVER_TASK_MEMBER(name, kind, room)
#define FEDSERVER_PHASE_MEMBER(name, kind, room)
#define FEDSERVER_BOTH_MEMBER(name, kind, room) FEDSERVER_##kind##_MEMBER(name, room)
#define FEDSERVER_TEXT_MEMBER(name, room)       char name[room];
#define FEDSERVER_INTEGER_MEMBER(name, room)    uint32_t name;
#define FEDSERVER_NUMBER_MEMBER(name, room)     float name;
#define FEDSERVER_TASK_KEY(id, name, where, kind, member, room, ...)                               \
    FEDSERVER_##where##_MEMBER(name, kind, room)
#include "fedserver/task_keys.def"
} fedserver_phase;

enum { FEDSERVER_PHASES = 32 }; /* beside the one that a task begins with */

/** What the task says about its rounds. 1 <= minimum <= goal; synchronous: goal <= cohort. */
typedef struct fedserver_round_rules {
    uint32_t rounds;     /* in the whole task */
    uint32_t cohort;     /* places: leases in a round; asynchronous: leases at any time */
    uint32_t goal;       /* updates at which a round commits at once */
    uint32_t minimum;    /* updates with which it commits at the deadline */
    int64_t deadline_ms; /* from the first lease of an attempt; asynchronous: of a round from its
                            first update, and of each lease from when it was given */
    uint32_t staleness;  /* 0: synchronous. Else buffered asynchronous (FedBuff): an update trained
                            on a model up to this many versions old counts */
} fedserver_round_rules;

typedef struct fedserver_task {
    fed_task wire; /* what devices are told in the first phase; wire.id is its number */
    char name[FEDSERVER_TASK_NAME];
    char codec_down[FEDCODEC_SPEC];           /* likewise */
    fedserver_phase phases[FEDSERVER_PHASES]; /* the later ones, by their rounds: phases.h */
    uint32_t phase_count;
    char strategy[FEDSERVER_STRATEGY_SPEC]; /* how updates become the next version */
    fedserver_selection selection;
    char tag[FEDSERVER_TAG]; /* only devices of this tag; "": all */
    double device_share;     /* most of a round that one device may weigh or move; 1: all */
    fedserver_round_rules rules;
    fedserver_task_state state;
    int64_t queued_ms, started_ms, finished_ms; /* 0: not yet */
} fedserver_task;

#endif
