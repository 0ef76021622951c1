/* The coordinator of a run: its directory, and over HTTPS its process. */
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
    fed_pem ca;
} sim_coordinator;

/** Initialise the directory (options->directory, or a temporary one: in memory where nothing else
 * is to find it there), queue the task, make `tokens` enrolment tokens (the caller's array),
 * the last one an evaluator's. */
fed_status sim_coordinator_prepare(sim_coordinator *c, const sim_options *options, size_t tokens,
                                   char (*token)[FEDSERVER_TOKEN], fed_error *err) FED_CHECKED;
/** Unix milliseconds at which virtual time begins. */
#define SIM_EPOCH_MS INT64_C(1767225600000) /* 2026-01-01 */

/** Start the process and wait until it listens. */
fed_status sim_coordinator_start(sim_coordinator *c, fed_error *err) FED_CHECKED;
/** Send a signal and wait for the end. FED_EIO if it ended otherwise than asked. */
fed_status sim_coordinator_stop(sim_coordinator *c, int signal, fed_error *err) FED_CHECKED;
/** FED_OK while the process runs; else the sentence says how it ended. */
fed_status sim_coordinator_alive(sim_coordinator *c, fed_error *err) FED_CHECKED;
/** The model that the coordinator keeps, read back from its database: into that file, and its
 * digest. NULL: into a file of the coordinator's directory. */
fed_status sim_coordinator_result(const sim_coordinator *c, const char *path, uint64_t *digest,
                                  fed_error *err) FED_CHECKED;
/** In place of prepare: where options->directory is NULL, from a backup. */
fed_status sim_coordinator_resume(sim_coordinator *c, const sim_options *options,
                                  const char *backup, fed_error *err) FED_CHECKED;
/** Remove what is in its directory, and that. */
void sim_coordinator_empty(const sim_coordinator *c);
/** Remove a temporary directory. */
void sim_coordinator_clean(sim_coordinator *c);

#endif
