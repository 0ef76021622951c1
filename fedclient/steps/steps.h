/* The functions for the states of fedclient_step. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_STEPS_H
#define FEDCLIENT_STEPS_H

#include "fed/layout_reference.h"
#include "fedclient/net/requests.h"

/** Give the stored identity to the transport. FED_OK, too, if none is stored yet. */
fed_status fedclient_identity_load(fedclient *client, fed_error *err) FED_CHECKED;

/** Get the next certificate if less than a third of the old one's life is left, or if renew_asked
 * is set. FED_OK, too, if the coordinator can't be asked now. Errors: FED_EIO, FED_ENOSPC,
 * FED_ECANCELED. */
fed_status fedclient_identity_renew(fedclient *client, fed_error *err) FED_CHECKED;

/** The coordinator refuses this device, and *why says how: enrol with client->token. *event becomes
 * a RETRY. After a failure *why says why the token does not help. */
fed_status fedclient_enrol_anew(fedclient *client, fedclient_event *event,
                                fed_error *why) FED_CHECKED;

/** Ask for work, and parse the assignment's model and codec. FED_EDECLINED: this client can't do
 * the task. */
fed_status fedclient_checkin(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/** Has this device memory for a model of so many values, and for `more` bytes? FED_ERANGE: it has
 * not. */
fed_status fedclient_fits(const fedclient *client, uint64_t values, uint64_t more,
                          fed_error *err) FED_CHECKED;

/* The next functions are in layout.c. */

/** The layout that a task's model names (fed/layout_reference.h). Free `record`. */
typedef struct fedclient_layout {
    fedclient_layout_head head;
    fedclient_record record; /* bytes NULL: the model is in the task itself */
    bool fetched;            /* the bytes come from the coordinator, and are in no slot */
    unsigned slot;           /* if not fetched: the slot whose record this is */
} fedclient_layout;

/** If the assignment's task names a layout, read it from the store. If no slot has it, fetch it.
 * Its bytes are not compared with the digest yet. FED_EDECLINED: this device can't hold such a
 * model. */
fed_status fedclient_layout_find(fedclient *client, const fedclient_job *job,
                                 fedclient_layout *layout, fed_error *err) FED_CHECKED;

/** Make the assignment's model of the task's text, or of the layout that it names. */
fed_status fedclient_layout_parse(const fedclient_job *job, const fedclient_layout *layout,
                                  fed_arch *arch, fed_error *err) FED_CHECKED;

/** Store the layout in the slot in use, unless it is there or the task is over. Without a layout,
 * remove that of the slot's earlier task. */
fed_status fedclient_layout_keep(fedclient *client, const fedclient_job *job,
                                 fedclient_layout *layout, fed_error *err) FED_CHECKED;
fed_status fedclient_layout_drop(fedclient *client, fed_error *err) FED_CHECKED;

/** Ask the program whether this device may take part now. FED_EBUSY: not now; FED_ECANCELED: the
 * program wants to end. watch.over then has the reason. */
fed_status fedclient_watch_program(fedclient *client, fed_error *err) FED_CHECKED;

/** assignment NULL: a training that the coordinator does not wait for. */
void fedclient_watch_start(fedclient *client, const fed_assignment *assignment);

/* The next four functions are in cache_download.c. */

/** May this download come from a cache? If so, the coordinator may answer with addresses of a
 * cache. */
bool fedclient_cache_download_wanted(const fedclient *client, const fedclient_job *job,
                                     const fedclient_partial_download *partial);

/** Did the coordinator answer with addresses of a cache in place of the model's bytes? */
bool fedclient_cache_download_is(const fedclient_partial_download *partial);

/** Fetch the missing bytes from the cache. Afterwards partial->bytes holds what the coordinator
 * itself would have sent. limit: bytes of the largest possible download. Errors: FED_ECANCELED; any
 * other: the cache has failed. */
fed_status fedclient_cache_download_fetch(fedclient *client, const fedclient_job *job, size_t limit,
                                          fedclient_partial_download *partial,
                                          fed_error *err) FED_CHECKED;

/** Log why, remove the bytes that came from the cache, and use no cache for a while. */
void fedclient_cache_download_failed(fedclient *client, fedclient_partial_download *partial,
                                     const char *why);

/** Bring job->model to the assignment's version, and store it. */
fed_status fedclient_download(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/** The loss as it travels to the coordinator, which may be too old for NaN (none). */
float fedclient_loss_sent(const fedclient_job *job, float loss);

/* participations.c: */

/** Has this device a participation left in the assignment's task, by its own record? The record is
 * kept beside what the coordinator says. *why says what is wrong. FED_EDECLINED: none. FED_EBUSY:
 * it rests (`apart`); client->watch.over has this, too. */
fed_status fedclient_participation_left(fedclient *client, const fed_assignment *told,
                                        fed_error *why) FED_CHECKED;

/** Note a participation, before the message of this lease is made: C12 in docs/durability.md.
 * Errors as fedclient_participation_left, and those of the platform. */
fed_status fedclient_participation_take(fedclient *client, const fed_assignment *told,
                                        fed_error *err) FED_CHECKED;
/** Copy the device's private key, for a signature. Wipe it with fed_wipe. */
fed_status fedclient_identity_key(const fedclient *client, fed_pem *key,
                                  fed_error *err) FED_CHECKED;

/* private.c: */

/** Is the assignment's task private (fed/privacy.h)? Its codec is known. */
bool fedclient_is_private(const fedclient_job *job);

/** Can this device serve the task, as far as its privacy goes? FED_EINVAL: *why says what not. Also
 * for tasks that are not private. */
fed_status fedclient_private_fits(const fedclient *client, const fedclient_job *job,
                                  fed_error *why) FED_CHECKED;

/** Does an update leave nothing of the residual, once it is counted? What clipping and rounding
 * take is dropped (D4 in docs/durability.md). */
bool fedclient_private_whole(const fedclient_job *job);

/** Append what follows an update's head: the values as masked fields. Each call draws anew. */
fed_status fedclient_private_encode(const fedclient *client, const fedclient_job *job,
                                    const fed_update *head, const float *values,
                                    fed_writer *out) FED_CHECKED;

/** Remove from a residual what the update with this head has sent. */
void fedclient_private_settle(const fedclient_job *job, const fed_update *head, float *values);

/* own.c: private layers. Without them these functions do nothing. */

/** Divide the assignment's model, which is parsed, into what travels and what stays. Errors: those
 * of fed_private_layers_split; FED_EINVAL this device does not train. */
fed_status fedclient_own_fits(const fedclient *client, fedclient_job *job,
                              fed_error *why) FED_CHECKED;

/** job->own = this device's private layers: the stored ones, or the task's initial values. */
fed_status fedclient_own_take(const fedclient *client, fedclient_job *job,
                              fed_error *err) FED_CHECKED;

/** values float32[arch.layout.size]: the values of what travels lie in front. Move each to its
 * place in the whole model, with zeros for private layers. */
void fedclient_own_spread(const fedclient_job *job, float *values);

/** After a training: *trained, the whole model, becomes what travels of it, and *own the private
 * layers. is_change: `trained` is the change. *own is freed by the caller, also after a failure. */
fed_status fedclient_own_divide(const fedclient *client, const fedclient_job *job,
                                fedclient_record *trained, bool is_change, fedclient_record *own,
                                fed_error *err) FED_CHECKED;

/** Store the private layers of the training `number`: C14 in docs/durability.md. */
fed_status fedclient_own_keep(fedclient *client, const fedclient_job *job, uint64_t number,
                              fedclient_record *own, fed_error *err) FED_CHECKED;

/** values float32[arch.layout.size] = job->model's values, and job->own. */
void fedclient_callback_values(const fedclient_job *job, float *values);

/** *copy = a copy of job->model, with job->own, that the callback may change; the copy becomes
 * round->values. Its payload has `more` bytes behind the values. */
fed_status fedclient_callback_copy(const fedclient *client, const fedclient_job *job, size_t more,
                                   fedclient_record *copy) FED_CHECKED;

/** FED_ESTATE: a step is under way, so a callback of this client has called `function`. */
fed_status fedclient_between_steps(const fedclient *client, const char *function,
                                   fed_error *err) FED_CHECKED;

/** Call the program's train callback, and check its results. After every failure *err has a
 * sentence. FED_OK, too, if the callback ended early with a partly trained model:
 * client->watch.over then has the reason. FED_EDECLINED: the task does not fit this device.
 * FED_ENONFINITE: a fault of this training, which may pass. */
fed_status fedclient_callback(fedclient *client, const fedclient_job *job, fedclient_round *round,
                              fed_error *err) FED_CHECKED;

/** Is the training for this assignment already in the residual, but in no message yet? */
bool fedclient_trained(const fedclient *client, const fed_assignment *assignment);

/** Train job->model and store residual + (trained - model). The training is then durable. */
fed_status fedclient_train(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/** Read a stored message: the update's head, and its envelope, which stays in the record. Errors:
 * FED_EFORMAT. */
fed_status fedclient_envelope_of(const fedclient_record *message, fed_update *update,
                                 const uint8_t **envelope, size_t *len) FED_CHECKED;

/** The message has been counted: subtract it from the stored residual at once, if the platform can
 * change a value in place. False: nothing was subtracted. */
bool fedclient_settle_now(const fedclient *client, const fedclient_job *job);

/** If the task wants a personal model (fed_task.personal_steps), and the slot's model has none yet,
 * train one and store it: C11 in docs/durability.md. FED_OK, too, after a failure, which costs the
 * copy only. FED_ECANCELED, and after the task's end FED_EBUSY: watch.over has the reason. */
fed_status fedclient_personal_make(fedclient *client, fedclient_job *job,
                                   fed_error *err) FED_CHECKED;

/** Compress the residual into job->pending, and store job->pending. */
fed_status fedclient_encode(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/** Send the pending message and store its fate. */
fed_status fedclient_send(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/** This device gets another identity. A message whose fate is unknown may be counted under the old
 * identity. So take the message as counted: it must never be counted twice (D2 in
 * docs/durability.md). */
fed_status fedclient_let_go(fedclient *client, fed_error *err) FED_CHECKED;

/** Tell the coordinator that this device does not serve job->assignment, with a reason. FED_OK,
 * too, if the coordinator takes no declines: then *wait_ms is set to how long to wait. */
fed_status fedclient_decline(fedclient *client, const fedclient_job *job, const char *reason,
                             uint32_t *wait_ms, fed_error *err) FED_CHECKED;

/** Measure job->model and set client->metric. fedclient_report then sends the metric. */
fed_status fedclient_evaluate(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;
fed_status fedclient_report(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

#endif
