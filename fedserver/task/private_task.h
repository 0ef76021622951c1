/* Private tasks: what devices are told of one, and what does not go with one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PRIVATE_TASK_H
#define FEDSERVER_PRIVATE_TASK_H

#include <stdbool.h>

#include "fed/arch.h"
#include "fed/error.h"
#include "fed/privacy.h"
#include "fedserver/task/fields.h"

/** Is the task private? Then codec_up is `ring`, and its updates have the form `masked`. */
bool fedserver_task_is_private(const fedserver_task *task);

/** Does the task promise an epsilon? Then its rounds have noise, and each device's participations
 * are counted (rounds/ledger.h). */
bool fedserver_task_promises(const fedserver_task *task);

/** Has the task a helper, who opens the sums of its rounds? */
bool fedserver_task_has_helper(const fedserver_task *task);

/** The keys of a task's helper: the one that updates are sealed to, and perhaps a spare one, to
 * which the task changes when its round is voided. */
typedef enum fedserver_helper_key {
    FEDSERVER_HELPERS_KEY,
    FEDSERVER_SPARE_KEY
} fedserver_helper_key;

/** Write the fingerprint by which the helper with this key is known, since it enrols with the key.
 * False: the task has no such key. */
bool fedserver_task_helper_name(const fedserver_task *task, fedserver_helper_key which,
                                uint8_t fingerprint[FED_SHA256_SIZE]);

/** Is this the fingerprint of the helper with this key? */
bool fedserver_task_helped_by(const fedserver_task *task, fedserver_helper_key which,
                              const uint8_t fingerprint[FED_SHA256_SIZE]);

/** In so many rounds in a row a device takes part once at most; 1 where the task does not say. */
uint32_t fedserver_task_apart(const fedserver_task *task);

/** Into how many sums the set of a round falls; 1 where the task does not say. */
uint32_t fedserver_task_groups(const fedserver_task *task);

/** Does the clip follow a quantile of the updates' lengths? */
bool fedserver_task_adapts(const fedserver_task *task);

/** The clip of the open round, or of the last one. */
float fedserver_task_clip(const fedserver_task *task);

/** Does the coordinator add the noise of a promise? It does without a helper, and beside one that
 * adds it too, where `noise` is "both". A helper adds the noise of every promise. */
bool fedserver_task_adds_noise(const fedserver_task *task);

/** What devices are told of the task in an assignment. All 0 where it is not private. layout: that
 * of its model. */
fed_privacy fedserver_privacy_of(const fedserver_task *task, const fed_layout *layout);

/** The noise of a task that promises an epsilon. */
typedef struct fedserver_promise {
    double z;    /* sigma of the noise, in lengths of the longest update */
    double cost; /* of one participation (privacy/accountant.h) */
    /* the length of the noise of all rounds in the model, divided by the clip and by rounds. Above
     * 0.5 the model learns visibly less. */
    double ratio;
    double goal; /* the least goal with which ratio is at most 0.5, at the same z */
} fedserver_promise;

fedserver_promise fedserver_promise_of(const fedserver_task *task, const fed_layout *layout);

/** The epsilon that a device has spent after `taken` participations. */
double fedserver_promise_spent(const fedserver_task *task, uint32_t taken);

/** The shape of an update's fields. The task is private, the layout that of its model. */
fed_privacy_fields fedserver_private_fields(const fedserver_task *task, const fed_layout *layout);

/** Check a task whose values were all read: does all of it go with `clip` and the codec `ring`?
 * FED_EINVAL: *id is the key that is wrong or missing, *why a sentence. */
fed_status fedserver_private_check(const fedserver_task *task, const fed_arch *arch,
                                   fedserver_field_id *id, fed_error *why) FED_CHECKED;

#endif
