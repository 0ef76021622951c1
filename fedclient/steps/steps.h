/* What a client does: the states of fedclient_step, each in a file of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_STEPS_H
#define FEDCLIENT_STEPS_H

#include "fedclient/net/requests.h"

/* enrol.c */

/** Present the stored identity to the transport. FED_OK, too, if there is none yet. */
fed_status fedclient_identity_load(fedclient *client, fed_error *err) FED_CHECKED;

/** Get the next certificate if less than a third of the certificate's life is left, or if the
 * coordinator asks for it. FED_OK, too, if that can't be done now: the old certificate is still
 * valid. Errors: the platform's. */
fed_status fedclient_identity_renew(fedclient *client, fed_error *err) FED_CHECKED;

/* checkin.c */

/** Ask for work, and parse the assignment's model and codec. FED_EDECLINED: this client can't do
 * the task. */
fed_status fedclient_checkin(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/* watch.c */

/** Ask the program whether this device may take part now. FED_EBUSY: not now; FED_ECANCELED: the
 * program wants to end. The step then ends, and watch.over has the reason. */
fed_status fedclient_watch_program(fedclient *client, fed_error *err) FED_CHECKED;

/** Start the time of an assignment that has just arrived. */
void fedclient_watch_start(fedclient *client, const fed_assignment *assignment);

/* cache_download.c: downloads that lie in a cache */

/** May this download come from a cache? The coordinator is told so, and names the address. */
bool fedclient_cache_download_wanted(const fedclient *client, const fedclient_job *job,
                                     const fedclient_partial_download *partial);

/** Did the coordinator name an address in place of the bytes? */
bool fedclient_cache_download_is(const fedclient_partial_download *partial);

/**
 * Fetch from the cache what is missing. Afterwards arrived->bytes has the download's parts, as if
 * the coordinator had sent them.
 *
 * limit   bytes of the largest possible download
 * Errors  FED_ECANCELED; any other: the cache has failed, and *err says how
 */
fed_status fedclient_cache_download_fetch(fedclient *client, const fedclient_job *job, size_t limit,
                                          fedclient_partial_download *partial,
                                          fed_error *err) FED_CHECKED;

/** The cache has failed: say why, forget what came from it, and do without caches for a while. */
void fedclient_cache_download_failed(fedclient *client, fedclient_partial_download *partial,
                                     const char *why);

/* download.c */

/** Bring job->model to the assignment's version, and store it. */
fed_status fedclient_download(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/* callback.c */

/** A copy of job->model that the callback may change, in the memory where the callback gets its
 * values. */
fed_status fedclient_callback_copy(const fedclient *client, const fedclient_job *job,
                                   fedclient_record *copy) FED_CHECKED;

/** Hand a model to the program's callback; every failure has a sentence. FED_OK, too, if the
 * callback ended early with a partly trained model: client->watch.over then has the reason. */
fed_status fedclient_callback(fedclient *client, const fedclient_job *job, fedclient_round *round,
                              fed_error *err) FED_CHECKED;

/* residual.c */

/** Is the assignment's training in the residual already, and no message made of it yet? */
bool fedclient_trained(const fedclient *client, const fed_assignment *assignment);

/** Train job->model and store residual + (trained - model). After that the training can't be
 * lost. */
fed_status fedclient_train(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/** The message has been counted: subtract it from the stored residual at once, if the platform can
 * change a value in place. False: it must still be subtracted later. */
bool fedclient_settle_now(const fedclient *client, const fedclient_job *job);

/* upload.c */

/** Compress the residual into job->pending, and store job->pending. */
fed_status fedclient_encode(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/** Send the pending message and store its fate: COUNTED or REFUSED. */
fed_status fedclient_send(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

/* decline.c */

/** Give the slot of job->assignment back, with a reason. FED_OK, too, if the coordinator takes no
 * declines: then *wait_ms is set to the time left of the lease. */
fed_status fedclient_decline(fedclient *client, const fedclient_job *job, const char *reason,
                             uint32_t *wait_ms, fed_error *err) FED_CHECKED;

/* measure.c */

/** Measure job->model, and set client->metric, which is then due. */
fed_status fedclient_evaluate(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;
fed_status fedclient_report(fedclient *client, fedclient_job *job, fed_error *err) FED_CHECKED;

#endif
