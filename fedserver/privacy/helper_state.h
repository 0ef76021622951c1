/* What a helper remembers, in an SQLite file of its own: openings, and the rounds of devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PRIVACY_HELPER_STATE_H
#define FEDSERVER_PRIVACY_HELPER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/hash.h"
#include "fedserver/privacy/promised_noise.h"

typedef struct fedserver_helper_state fedserver_helper_state;

/** Which opening a row is about. */
typedef struct fedserver_opened {
    uint64_t generation, task;
    uint32_t round;
} fedserver_opened;

/** Errors: as fedserver_helper_open. */
fed_status fedserver_helper_state_open(const char *path, fedserver_helper_state **state,
                                       fed_error *err) FED_CHECKED;
void fedserver_helper_state_close(fedserver_helper_state *state);

/** Begin a transaction, and end it. A commit is on disk when it returns. */
fed_status fedserver_helper_state_begin(fedserver_helper_state *state, fed_error *err) FED_CHECKED;
fed_status fedserver_helper_state_commit(fedserver_helper_state *state, fed_error *err) FED_CHECKED;
void fedserver_helper_state_rollback(fedserver_helper_state *state);

/** Read the digest of the set that was opened. *found: there is a row. */
fed_status fedserver_helper_state_find(fedserver_helper_state *state, const fedserver_opened *which,
                                       bool *found, uint8_t set[FED_SHA256_SIZE],
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_helper_state_add(fedserver_helper_state *state, const fedserver_opened *which,
                                      const uint8_t set[FED_SHA256_SIZE],
                                      fed_error *err) FED_CHECKED;

/** How often a device took part in the task, over all generations; and its last round, if that was
 * in this generation. 0 and 0: never. */
fed_status fedserver_helper_state_taken(fedserver_helper_state *state,
                                        const fedserver_opened *which,
                                        const uint8_t device[FED_SHA256_SIZE], uint32_t *taken,
                                        uint32_t *last, fed_error *err) FED_CHECKED;
fed_status fedserver_helper_state_take(fedserver_helper_state *state, const fedserver_opened *which,
                                       const uint8_t device[FED_SHA256_SIZE],
                                       fed_error *err) FED_CHECKED;

/** A task's generation beside the one of its last opening. */
typedef enum fedserver_helper_age {
    FEDSERVER_HELPER_FIRST,   /* nothing of the task was opened yet */
    FEDSERVER_HELPER_PRESENT, /* the same one */
    FEDSERVER_HELPER_NEWER,   /* one of which nothing was opened yet */
    FEDSERVER_HELPER_OVER     /* an earlier one: it is over */
} fedserver_helper_age;

fed_status fedserver_helper_state_age(fedserver_helper_state *state, const fedserver_opened *which,
                                      fedserver_helper_age *age, fed_error *err) FED_CHECKED;
/** This generation is the task's present one from now on. */
fed_status fedserver_helper_state_renew(fedserver_helper_state *state,
                                        const fedserver_opened *which, fed_error *err) FED_CHECKED;

/** Does a task promise what it promised when its first round was opened? The first call for a task
 * stores that. *same: yes. */
fed_status fedserver_helper_state_promise(fedserver_helper_state *state, uint64_t task,
                                          const uint8_t promise[FEDSERVER_PROMISE], bool *same,
                                          fed_error *err) FED_CHECKED;

/** Store the key of a round's noise in place of that of the task's round before, which is gone
 * with the commit. */
fed_status fedserver_helper_state_keep_noise(fedserver_helper_state *state,
                                             const fedserver_opened *which,
                                             const uint8_t key[FEDSERVER_NOISE_KEY],
                                             fed_error *err) FED_CHECKED;
/** Read it. *found: it was not deleted yet. */
fed_status fedserver_helper_state_noise(fedserver_helper_state *state,
                                        const fedserver_opened *which,
                                        uint8_t key[FEDSERVER_NOISE_KEY], bool *found,
                                        fed_error *err) FED_CHECKED;

/** Store the correlated noise of a round (privacy/correlated.h), for the `kept` rounds after it.
 * Earlier rounds' is deleted, and that of other generations. */
fed_status fedserver_helper_state_keep_correlated(fedserver_helper_state *state,
                                                  const fedserver_opened *which,
                                                  const uint8_t *noise, size_t len, uint32_t kept,
                                                  fed_error *err) FED_CHECKED;
/** Read that of a round, len bytes. *found: it is there. */
fed_status fedserver_helper_state_correlated(fedserver_helper_state *state,
                                             const fedserver_opened *which, uint8_t *noise,
                                             size_t len, bool *found, fed_error *err) FED_CHECKED;

#endif
