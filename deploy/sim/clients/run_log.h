/* Writes the log of a run, from what clients do and from the coordinator's rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_RUN_LOG_H
#define FEDSIM_RUN_LOG_H

#include "deploy/sim/clients/clients.h"
#include "fedserver/operator.h"

/* While clients run, the caller of these functions holds the clients' mutex. */

/** Record that a step has ended. *over becomes true if the client has nothing more to do.
 * FED_ERANGE: the coordinator refuses update after update, so the round would never end. */
fed_status sim_note_event(sim_client *client, const sim_step_end *end, bool *over,
                          fed_error *err) FED_CHECKED;
/** Record that a client checked in. The run's time begins with the first check-in. */
void sim_note_checkin(sim_clients *clients, int64_t now_ms);
/** Record a model's accuracy and loss on the test data; NAN: it has none. */
fed_status sim_note_measured(sim_clients *clients, uint32_t version, double accuracy,
                             double loss) FED_CHECKED;
/** Copy the coordinator's newest `most` committed rounds into the log. */
fed_status sim_note_rounds(sim_clients *clients, fedserver *server, uint32_t most,
                           fed_error *err) FED_CHECKED;
/** Record that the rounds before the newest that a client was asked for are over, and when. For a
 * coordinator that only its clients know. */
fed_status sim_note_seen(sim_clients *clients) FED_CHECKED;
/** Complete the log at the run's end: add the clients' figures, and drop rounds that were not
 * committed. digest: of the coordinator's final model. */
void sim_note_end(sim_clients *clients, uint64_t digest);

#endif
