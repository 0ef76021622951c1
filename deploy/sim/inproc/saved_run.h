/* What a run that was stopped goes on from. */
#ifndef FEDSIM_SAVED_RUN_H
#define FEDSIM_SAVED_RUN_H

#include "deploy/sim/inproc/world.h"

/*
 * In options->state: `run` (clocks, keys, who is where in its turn, the log), `clients` (their
 * stores and optimizers, stores.h) and `coordinator` (a backup; or options->directory itself). They
 * are written when a run is stopped, after what is being trained then; a run that is killed has
 * lost them, and is begun again. `run` is read by the release that wrote it, on such a machine.
 *
 * Promised: the run that goes on comes to the models and the log, bit for bit, that it would have
 * come to without being stopped. What the coordinator keeps in memory only, so that a restart loses
 * it, is written down too.
 */

/** A run begins: makes options->state, where there is nothing to resume from now on. */
fed_status sim_saved_begin(const sim_options *options, fed_error *err) FED_CHECKED;
/** A run has come to its end: all of it goes. */
void sim_saved_end(const sim_options *options);
/** Is there one to resume? FED_ENOTFOUND. */
fed_status sim_saved_find(const sim_options *options, fed_error *err) FED_CHECKED;
/** Write all of it down; nobody's code runs any more but to be cancelled. Under the mutex. */
fed_status sim_saved_take(sim_world *world, fed_writer *state) FED_CHECKED;
/** Put it and the coordinator into options->state; the threads are gone. */
fed_status sim_saved_save(sim_world *world, const fed_writer *state, fed_error *err) FED_CHECKED;
/** Read it back into actors that are open, and a clients. FED_EINVAL: it is of another run;
 * FED_EFORMAT, FED_EVERSION. */
fed_status sim_saved_load(sim_world *world, fed_error *err) FED_CHECKED;

#endif
