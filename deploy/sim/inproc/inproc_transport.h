/* The transport of a run in one process: it hands requests to the scheduler. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_INPROC_TRANSPORT_H
#define FEDSIM_INPROC_TRANSPORT_H

#include "deploy/sim/inproc/world.h"

/** Make the client's transport. */
void sim_inproc_transport_open(sim_actor *actor);

/** Return the digest of the body of the client's request. */
uint64_t sim_request_digest(const sim_actor *actor);
/** Let an answer leave at the time *us, and count its bytes. *us becomes the time when the answer
 * arrives. FED_ENET: the client goes away before that, at the time *us. */
fed_status sim_answer_send(sim_actor *actor, const fedserver_response *response, int64_t *us);
/** Keep the answer to the client's check-in until its step ends; NULL: forget the kept answer.
 * Takes a reference of its own. */
void sim_answer_keep(sim_actor *actor, fedserver_blob *answer);
/** Make the answer that tells a client to wait. FED_ENOMEM. */
fed_status sim_answer_wait(const sim_actor *actor, uint32_t ms, fedserver_response *response,
                           fed_error *err) FED_CHECKED;

#endif
