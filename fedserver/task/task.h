/* The coordinator's description of a task. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TASK_H
#define FEDSERVER_TASK_H

#include <stdint.h>

#include "fed/log.h"
#include "fed/optimizer_spec.h"
#include "fed/privacy.h"
#include "fed/wire.h"
#include "fedcodec/codec.h"
#include "fedserver/operator.h"
#include "fedserver/strategies/strategy.h"

/** The rule that decides which devices get the slots of a round. */
typedef enum fedserver_selection {
    FEDSERVER_SELECT_UNIFORM = 0,    /* every device with the same chance */
    FEDSERVER_SELECT_WEIGHTED = 1,   /* devices with more samples have a larger chance */
    FEDSERVER_SELECT_ROUND_ROBIN = 2 /* devices that took part longest ago come first */
} fedserver_selection;

/** A task's settings from a round on, until the next phase. There is a member for each key that a
 * phase may change, such as codec_up or local_steps; task_keys.def names them. */
typedef struct fedserver_phase {
    uint32_t round;
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

enum { FEDSERVER_PHASES = 32 }; /* the most phases that can follow phase 0 */

/** The rules of a task's rounds. 1 <= minimum <= goal; synchronous: also goal <= cohort. */
typedef struct fedserver_round_rules {
    uint32_t rounds;
    uint32_t cohort;  /* number of slots, for one round or, if asynchronous, at any time */
    uint32_t goal;    /* with this many updates a round closes at once */
    uint32_t minimum; /* with this many updates a round closes at the deadline */
    /* of a private task: into how many sums a round's set falls (privacy/grouping.h); 0: one. Then
     * `minimum` is that of each: fedserver_round_least */
    uint32_t groups;
    /* Synchronous: how long an attempt lasts from its first lease on. Asynchronous: how long a
     * round lasts from its first update on, and how long a lease lasts. */
    int64_t deadline_ms;
    /* 0: synchronous. Above 0: buffered asynchronous (FedBuff), where an update counts if its
     * model is at most this many versions old. */
    uint32_t staleness;
    /* For an edge aggregator's task: the number of the upstream task that it serves; "" for other
     * tasks. The edge aggregator commits the rounds of such a task with upstream's version
     * (fedserver/edge.h). */
    char upstream[24];
} fedserver_round_rules;

/** The updates with which a round closes at the deadline: each group's minimum. */
static inline uint32_t fedserver_round_least(const fedserver_round_rules *rules) {
    return rules->groups > 1 ? rules->groups * rules->minimum : rules->minimum;
}

/** A task. task_keys.def has a line for each member that a task file can set. */
typedef struct fedserver_task {
    /* what devices are sent, with the settings of the first phase; wire.id is the task's number */
    fed_task wire;
    char name[FEDSERVER_TASK_NAME];
    char codec_down[FEDCODEC_SPEC];
    /* auto:bytes=N, for which the coordinator chose codec_up; "": the task file names codec_up */
    char codec_up_asked[FEDCODEC_SPEC];
    fedserver_phase phases[FEDSERVER_PHASES]; /* the later phases, in the order of their rounds */
    uint32_t phase_count;
    char strategy[FEDSERVER_STRATEGY_SPEC]; /* strategy spec: how updates become the next version */
    fedserver_selection selection;
    char tag[FEDSERVER_TAG]; /* only devices with this tag take part; "": all devices */
    uint32_t priority; /* of equal offers to a device, the larger number wins (rounds/choice.h) */
    /* the largest fraction of a round's weight that one device may have (rounds/weights.h) */
    double device_share;
    /* of a private task: its helper's seal key, and perhaps a spare one behind a blank, in hex; "".
     * In a task file also the path of a file that has them. */
    char helper[512];
    char helper_is[FEDSERVER_TASK_NAME]; /* the party that runs the helper, or "ours"; "": unsaid */
    float clip; /* of a private task, whose codec_up is ring (fed/privacy.h); 0: not private */
    /* what is promised of each device over all rounds (privacy/accountant.h); 0: nothing */
    float epsilon, delta;
    uint32_t participations; /* the most rounds in which a device takes part */
    uint32_t apart;          /* fedserver_task_apart; 0: not given */
    /* the share of updates that are to be at most clip long: the clip of a round follows
     * (rounds/ledger.h). 0: each round has the same clip */
    float clip_quantile;
    char noise[16]; /* who adds the noise; "": the helper, or else the coordinator */
    fedserver_round_rules rules;
    /* the clip of the open round, or of the last one, where there is a clip_quantile; 0: `clip`.
     * The rounds' rows have it */
    float round_clip;
    /* random; a part of a private task's terms. The store gives the task another one where it is a
     * copy, and where a person voids a round: stores/store.h */
    uint64_t generation;
    fedserver_task_state state;
    /* Unix milliseconds; 0: the task was not queued, started or finished yet */
    int64_t queued_ms, started_ms, finished_ms;
} fedserver_task;

/** What a log line about this task is about. round: 0: no round. */
static inline fed_log_about fedserver_task_about(const fedserver_task *task, uint32_t round) {
    return (fed_log_about){.task = task->wire.id, .task_name = task->name, .round = round};
}

/** A task as its file describes it. */
typedef struct fedserver_config {
    fedserver_task task; /* without id, state and times; model and codecs are canonical text */
    char initial[1024];  /* path of a safetensors file to start from; "": random weights */
    /* the text that task.wire.model names, where that is a reference (fed/layout_reference.h); else
     * NULL. fedserver_config_free frees it */
    char *layout;
} fedserver_config;

#endif
