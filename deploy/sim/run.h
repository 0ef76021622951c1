/* Runs a simulation, from its options to its log. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_RUN_H
#define FEDSIM_RUN_H

#include "deploy/sim/clients/run_progress.h"
#include "deploy/sim/report/sim_log.h"
#include "deploy/sim/scenario/options.h"

/**
 * Run the task to its end, or until *watch->stop is non-zero. *log is all 0 at first; the caller
 * frees it with sim_log_free, even after an error. Errors: those of the task file, the data and the
 * coordinator. FED_ECANCELED: stopped, and the log has the rounds so far. FED_ESTATE: a client
 * holds another model than the coordinator, or the final model was not measured. */
fed_status sim_run(const sim_options *options, const sim_watch *watch, sim_log *log,
                   fed_error *err) FED_CHECKED;

#endif
