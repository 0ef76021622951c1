/* Shared by the tests that kill processes: children that are started again, their task, and the
 * final check that every acknowledged update was counted. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CHAOS_CROWD_H
#define FED_CHAOS_CROWD_H

#include "chaos.h"
#include "fed/rng.h"
#include "federation.h"

typedef struct chaos_child {
    pid_t pid; /* 0: not running */
    unsigned lives;
    bool finished;
    int64_t starts_ms; /* the earliest time of its next start */
} chaos_child;

/** Start the child. Returns true in the child itself, which ends when its parent ends. */
bool chaos_child_is(chaos_child *one);

void chaos_child_end(chaos_child *one);

typedef enum chaos_end {
    CHAOS_ENDED_FINISHED, /* a device that knows that the task is over */
    CHAOS_ENDED_AGAIN,
    CHAOS_ENDED_KILLED,
    CHAOS_ENDED_BROKEN
} chaos_end;

/** Note that the child ended with waitpid's status `how`. Unless it has finished, it may
 * be started again after a random while, or at once if dice is NULL. */
chaos_end chaos_child_note(chaos_child *one, int how, fed_rng *dice);

/** Start those of the run's devices first to first + count - 1 that are due. Returns how many
 * of them have not finished. */
unsigned chaos_raise(const chaos_run *run, unsigned first, unsigned count, chaos_child *device,
                     char (*token)[FEDSERVER_TOKEN]);

/** Has the time *when_ms come? If so, *when_ms moves on by about every_ms. The first call sets
 * *when_ms, which is 0, and returns false. */
bool chaos_is_due(fed_rng *dice, int64_t *when_ms, int64_t every_ms);

/** Queue a task whose model begins with zeros. The JSON must name zeros.safetensors as
 * "initial". */
uint64_t chaos_task(const char *directory, const char *model, const char *json, fedserver *home);

/** Read the CA of the coordinator in this directory. */
void chaos_read_ca(chaos_run *run, const char *coordinator);

/** Begin the final check: f gets an empty history, to which the caller adds the devices' logs. */
void chaos_judge(federation *f, const federation_setup *setup, const char *directory,
                 federation_result *result);

/** Do the whole final check of a run where all devices serve the same single task: begin the check,
 * read each device's log, and compare. */
void chaos_judge_all(const federation_setup *setup, const char *directory,
                     federation_result *result);

#endif
