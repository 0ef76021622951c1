/* The coordinator of a run: its directory, and over HTTPS its process. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_COORDINATOR_H
#define FEDSIM_COORDINATOR_H

#include <sys/types.h>

#include "deploy/sim/scenario/options.h"
#include "fed/crypto.h"
#include "fed/error.h"
#include "fedserver/operator.h"

typedef struct sim_coordinator {
    const char *program;
    const char *aggregator; /* sim_options.aggregator */
    char directory[512];
    bool temporary;
    int lock; /* the temporary directory, locked while this process lives */
    /* Over HTTPS, a child process serves the directory: */
    pid_t pid;
    int output; /* the read end of the process's standard output */
    uint16_t front_port, devices_port;
    int held[2]; /* 1 + the socket that keeps each port while the process restarts; 0: none */
    fed_pem ca;
} sim_coordinator;

/** Choose the directory: options->directory, or one in a new temporary directory, which lies in
 * memory for a run in one process, if there is room. The directory itself is not made yet.
 * Temporary directories of runs that were killed are removed. */
fed_status sim_coordinator_place(sim_coordinator *c, const sim_options *options,
                                 fed_error *err) FED_CHECKED;
/** Make the coordinator, and token[tokens]: enrolment tokens, the last one an evaluator's. */
fed_status sim_coordinator_make(const sim_coordinator *c, const sim_options *options, size_t tokens,
                                char (*token)[FEDSERVER_TOKEN], fed_error *err) FED_CHECKED;
/** Queue the task that the file options->task describes. */
fed_status sim_coordinator_queue(const sim_coordinator *c, const sim_options *options,
                                 fed_error *err) FED_CHECKED;
/** Let strategy=custom find the aggregator, if there is one. */
fed_status sim_coordinator_link(const sim_coordinator *c, fed_error *err) FED_CHECKED;
/** Do the work of sim_coordinator_place, _make and _queue, and read the CA's certificate. */
fed_status sim_coordinator_prepare(sim_coordinator *c, const sim_options *options, size_t tokens,
                                   char (*token)[FEDSERVER_TOKEN], fed_error *err) FED_CHECKED;
/** Unix milliseconds at which virtual time begins. */
#define SIM_EPOCH_MS INT64_C(1767225600000) /* 2026-01-01 */

fed_status sim_coordinator_start(sim_coordinator *c, fed_error *err) FED_CHECKED;
/** Send a signal and wait for the end of the process. FED_EIO: the process ended neither by that
 * signal nor with exit status 0. */
fed_status sim_coordinator_stop(sim_coordinator *c, int signal, fed_error *err) FED_CHECKED;
/** Check that the process still runs. FED_EIO: it has ended. */
fed_status sim_coordinator_alive(sim_coordinator *c, fed_error *err) FED_CHECKED;
/** Export the model to `path` (NULL: into the directory), and compute its digest. */
fed_status sim_coordinator_result(const sim_coordinator *c, const char *path, uint64_t *digest,
                                  fed_error *err) FED_CHECKED;
/** Copy the files of a coordinator that nobody has open. The copy goes on as the same coordinator.
 * A backup would be another one to the helper of a private task, and to its ledger. */
fed_status sim_coordinator_copy(const char *from, const char *to, fed_error *err) FED_CHECKED;
/** Choose the directory of a run that is resumed. If options->directory is NULL, it becomes a copy
 * of `saved`. */
fed_status sim_coordinator_resume(sim_coordinator *c, const sim_options *options, const char *saved,
                                  fed_error *err) FED_CHECKED;
void sim_coordinator_empty(const sim_coordinator *c);
/** Give up the ports, and remove a temporary directory. */
void sim_coordinator_clean(sim_coordinator *c);

#endif
