/* The transport of a run in one process: it hands requests to the scheduler. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_INPROC_TRANSPORT_H
#define FEDSIM_INPROC_TRANSPORT_H

#include "deploy/sim/inproc/world.h"

/** Make the client's transport. */
void sim_inproc_transport_open(sim_actor *actor);

/** The digest of its request's body. */
uint64_t sim_request_digest(const sim_actor *actor);
/** An answer leaves at its time. *us becomes the time when it is there, or, with FED_ENET, the time
 * when its client went away before. Its bytes are counted. */
fed_status sim_answer_send(sim_actor *actor, const fedserver_response *response, int64_t *us);
/** Keep the answer to its check-in until its step ends; NULL: forget it. Takes a reference. */
void sim_answer_keep(sim_actor *actor, fedserver_blob *answer);
/** Make the answer that tells a client to wait. FED_ENOMEM. */
fed_status sim_answer_wait(const sim_actor *actor, uint32_t ms, fedserver_response *response,
                           fed_error *err) FED_CHECKED;

#endif
