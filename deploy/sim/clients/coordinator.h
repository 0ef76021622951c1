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
    char directory[512];
    bool temporary;
    /* HTTPS: a child process that serves the directory */
    pid_t pid;
    int output; /* its standard output */
    uint16_t front_port, devices_port;
    int held[2]; /* sockets that keep ports for its next life, plus 1; 0: none */
    fed_pem ca;
} sim_coordinator;

/** Choose the directory: options->directory, or one in a new temporary directory, which lies in
 * memory for a run in one process. Nothing is in it yet. */
fed_status sim_coordinator_place(sim_coordinator *c, const sim_options *options,
                                 fed_error *err) FED_CHECKED;
/** Make the coordinator, with `tokens` enrolment tokens, the last one an evaluator's.
 *    token  [tokens], written */
fed_status sim_coordinator_make(const sim_coordinator *c, const sim_options *options, size_t tokens,
                                char (*token)[FEDSERVER_TOKEN], fed_error *err) FED_CHECKED;
/** Queue the options' task. */
fed_status sim_coordinator_queue(const sim_coordinator *c, const sim_options *options,
                                 fed_error *err) FED_CHECKED;
/** All three of them, and read the CA's certificate. */
fed_status sim_coordinator_prepare(sim_coordinator *c, const sim_options *options, size_t tokens,
                                   char (*token)[FEDSERVER_TOKEN], fed_error *err) FED_CHECKED;
/** Unix milliseconds at which virtual time begins. */
#define SIM_EPOCH_MS INT64_C(1767225600000) /* 2026-01-01 */

/** Start the process and wait until it listens. */
fed_status sim_coordinator_start(sim_coordinator *c, fed_error *err) FED_CHECKED;
/** Send a signal and wait for the end. FED_EIO: the process did not end by that signal, nor with
 * exit status 0. */
fed_status sim_coordinator_stop(sim_coordinator *c, int signal, fed_error *err) FED_CHECKED;
/** FED_OK: the process runs. Else *err says how it ended. */
fed_status sim_coordinator_alive(sim_coordinator *c, fed_error *err) FED_CHECKED;
/** Export the coordinator's model into the file at `path`, and compute its digest. path NULL: a
 * file of the coordinator's directory. */
fed_status sim_coordinator_result(const sim_coordinator *c, const char *path, uint64_t *digest,
                                  fed_error *err) FED_CHECKED;
/** In place of prepare, for a run that is resumed. Where options->directory is NULL, the directory
 * is made from a backup. */
fed_status sim_coordinator_resume(sim_coordinator *c, const sim_options *options,
                                  const char *backup, fed_error *err) FED_CHECKED;
/** Remove its directory with all that is in it. */
void sim_coordinator_empty(const sim_coordinator *c);
/** Give up the ports, and remove a temporary directory. */
void sim_coordinator_clean(sim_coordinator *c);

#endif
