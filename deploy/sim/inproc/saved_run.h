/* The files from which a stopped run is resumed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SAVED_RUN_H
#define FEDSIM_SAVED_RUN_H

#include "deploy/sim/inproc/world.h"

/*
 * The directory options->state holds:
 *
 *   run          the state of the clients and of the scheduler, and the log
 *   clients      the clients' stores (client_stores.h)
 *   coordinator  the coordinator's files; missing where options->directory keeps it
 *
 * They are written when a run is stopped, after the trainings that are under way then. A run that
 * is killed writes nothing, and has to begin again. Only the release that wrote `run` reads it, on
 * a machine of the same kind.
 *
 * Except for real times and CPU times, the resumed run comes to the same models and the same log,
 * bit for bit, as without the stop. Therefore what the coordinator keeps in memory only is saved,
 * too.
 */

/** Make the directory options->state for a new run, and remove an earlier run's file `run`. */
fed_status sim_saved_begin(const sim_options *options, fed_error *err) FED_CHECKED;
/** Remove options->state and all its files, because the run has come to its end. */
void sim_saved_end(const sim_options *options);
/** Check that options->state holds a run. FED_ENOTFOUND: there is no run to resume. */
fed_status sim_saved_find(const sim_options *options, fed_error *err) FED_CHECKED;
/** Append the run's state to `state`. Every step has ended or waits for an answer, and will only be
 * cancelled. */
fed_status sim_saved_take(sim_world *world, fed_writer *state) FED_CHECKED;
/** After the threads have ended, write all files; `state` is from sim_saved_take. */
fed_status sim_saved_save(sim_world *world, const fed_writer *state, fed_error *err) FED_CHECKED;
/** Load the saved state into a world whose clients are open. FED_EINVAL: the state is of another
 * run. FED_EFORMAT: it is damaged. FED_EVERSION: it is of another release. */
fed_status sim_saved_load(sim_world *world, fed_error *err) FED_CHECKED;

#endif
