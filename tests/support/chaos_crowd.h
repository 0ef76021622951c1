/* What the runs that kill processes have in common: children that come back, the task that they
 * train, and the judgement of what the devices were acknowledged. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CHAOS_CROWD_H
#define FED_CHAOS_CROWD_H

#include "chaos.h"
#include "fed/rng.h"
#include "federation.h"

typedef struct chaos_child {
    pid_t pid; /* 0: none runs */
    unsigned lives;
    bool finished;
    int64_t starts_ms; /* not before */
} chaos_child;

/** Start the child. True in the child itself, which ends with its parent. */
bool chaos_child_is(chaos_child *one);

/** Kill it, if it runs. */
void chaos_child_end(chaos_child *one);

typedef enum chaos_end {
    CHAOS_ENDED_FINISHED, /* a device that knows that the task is over */
    CHAOS_ENDED_AGAIN,    /* it said CHAOS_AGAIN */
    CHAOS_ENDED_KILLED,   /* by SIGKILL */
    CHAOS_ENDED_BROKEN    /* anything else */
} chaos_end;

/** It has ended, and `how` is as of waitpid. Unless it has finished, it may start again: at once,
 * or after a while that is drawn from the dice. */
chaos_end chaos_child_note(chaos_child *one, int how, fed_rng *dice);

/** Start the devices that should be there: `count` of the run, from number `first` on. Returns how
 * many of them have not finished. */
unsigned chaos_raise(const chaos_run *run, unsigned first, unsigned count, chaos_child *device,
                     char (*token)[FEDSERVER_TOKEN]);

/** Is it time? Then *when_ms moves on by about every_ms. It is not at the first question, where
 * *when_ms is 0. */
bool chaos_is_due(fed_rng *dice, int64_t *when_ms, int64_t every_ms);

/** Queue a task for this model, which begins with zeros. The JSON names zeros.safetensors. */
uint64_t chaos_task(const char *directory, const char *model, const char *json, fedserver *home);

/** Read the CA of the coordinator in this directory. */
void chaos_read_ca(chaos_run *run, const char *coordinator);

/** Begin to judge: afterwards the devices' logs are read into f. */
void chaos_judge(federation *f, const federation_setup *setup, const char *directory,
                 federation_result *result);

/** As chaos_judge, to the end, for the one task of all devices. */
void chaos_judge_all(const federation_setup *setup, const char *directory,
                     federation_result *result);

#endif
