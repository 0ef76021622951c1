/* The helper of a run over HTTPS: a process of `fedserver helper`. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_HELPER_PROCESS_H
#define FEDSIM_HELPER_PROCESS_H

#include "deploy/sim/clients/coordinator.h"

typedef struct sim_helper_process {
    char directory[480]; /* beside the coordinator's; its log is helper.log there */
    pid_t pid;           /* 0: there is none */
    double cpu_s;        /* CPU seconds that it has used, once it has ended */
} sim_helper_process;

/** With options->helper: start a helper for the coordinator, which serves already. */
fed_status sim_helper_start(sim_helper_process *helper, const sim_coordinator *coordinator,
                            const sim_options *options, fed_error *err) FED_CHECKED;
/** Check that the process still runs. FED_EIO: it has ended. */
fed_status sim_helper_alive(sim_helper_process *helper, fed_error *err) FED_CHECKED;
/** End the process. A helper in a temporary directory leaves nothing. */
void sim_helper_stop(sim_helper_process *helper, const sim_coordinator *coordinator);

#endif
