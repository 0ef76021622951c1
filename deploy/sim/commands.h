/* The commands of fedsim, and what the command line asks for. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_COMMANDS_H
#define FEDSIM_COMMANDS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "deploy/sim/scenario/keys.h"

typedef struct sim_command {
    const char **words; /* the arguments that are not options */
    size_t word_count;
    const char *out; /* the value of --out; NULL: not given */
    bool resume, help;
    const atomic_int *stop; /* when non-zero, end the run cleanly */
} sim_command;

/** Run a scenario or a grid. FED_ECANCELED: it was stopped. */
fed_status sim_command_run(const sim_command *command, fed_error *err) FED_CHECKED;
fed_status sim_command_report(const sim_command *command, fed_error *err) FED_CHECKED;

/** Print the results of these directories' runs, and write their page to `page`; NULL: no page. */
fed_status sim_report_make(const char *const *directories, size_t count, const char *page,
                           const char *title, fed_error *err) FED_CHECKED;

#endif
