/* Hostile clients of private tasks with a helper: behind its mask, an update ignores the clip. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_CLIP_IGNORED_H
#define FEDSIM_CLIP_IGNORED_H

#include "deploy/sim/inproc/world.h"

/*
 * The client library clips. A hostile device need not: it adds whatever it likes to its masked
 * fields, and nobody sees that. Here it adds half as many updates of the longest length as the
 * round's goal, which the length of the whole sum allows. Each raises the first tenth of the
 * model's values.
 */

/** Is this one of the first clients, as many as options->hostile says? */
bool sim_hostile_is(const sim_actor *actor);

/** Remember what the answer to a check-in says of a private round. */
fed_status sim_hostile_hear(sim_actor *actor) FED_CHECKED;

/** Change the update that the client is about to send, in a private task with a helper. An update
 * of several pieces stays as it is. */
fed_status sim_hostile_push(sim_actor *actor, fed_error *err) FED_CHECKED;

#endif
