/* What a run that was stopped goes on from. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SAVED_RUN_H
#define FEDSIM_SAVED_RUN_H

#include "deploy/sim/inproc/world.h"

/*
 * options->state holds three things: `run` (the structs called `kept`, the heap, the log),
 * `clients` (the clients' stores, client_stores.h) and `coordinator` (a backup; or
 * options->directory itself). They are written when a run is stopped, after the trainings that are
 * under way then. A run that is killed has lost them, and is begun again. Only the release that
 * wrote `run` reads it, on such a machine.
 *
 * Promised: the resumed run comes to the models and the log, bit for bit, that it would have come
 * to without being stopped. So what the coordinator keeps in memory only is saved, too.
 */

/** A run begins: make options->state, and remove what there was to resume. */
fed_status sim_saved_begin(const sim_options *options, fed_error *err) FED_CHECKED;
/** A run has come to its end: remove all of it. */
void sim_saved_end(const sim_options *options);
/** FED_ENOTFOUND: there is no run to resume. */
fed_status sim_saved_find(const sim_options *options, fed_error *err) FED_CHECKED;
/** Append the run's state to `state`. No client's code runs any more, but to be cancelled. Under
 * the mutex. */
fed_status sim_saved_take(sim_world *world, fed_writer *state) FED_CHECKED;
/** Write that state and the coordinator into options->state; the threads have ended. */
fed_status sim_saved_save(sim_world *world, const fed_writer *state, fed_error *err) FED_CHECKED;
/** Load it into a world whose clients are open. FED_EINVAL: it is of another run; FED_EFORMAT it is
 * damaged, FED_EVERSION of another release. */
fed_status sim_saved_load(sim_world *world, fed_error *err) FED_CHECKED;

#endif
