/* The crowd: simulated clients that have enrolled, and their coordinator, kept for later runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SAVED_CROWD_H
#define FEDSIM_SAVED_CROWD_H

#include <stdbool.h>

#include "deploy/sim/clients/clients.h"

/*
 * To enrol costs milliseconds of CPU time a client: a key, a signature, a certificate. A run keeps
 * what its enrolment has made in the directory options->crowd. A later run of as many clients
 * loads that, and enrols none.
 *
 * The crowd of N clients and an evaluator is one file, DIR/simulated-crowd-N. The file holds
 * private keys, and only its owner may read it. A real federation never uses these keys:
 *
 *   - The file is neither a coordinator's directory nor a device's store, so only fedsim reads it.
 *   - Only a run in one process reads it. Such a run makes no TLS connection with these keys.
 *   - Its certificates are of a CA of its own, which has enrolled nobody else.
 *
 * The file is replaced whole. A run of another build makes it anew.
 */

/** If options->crowd is set, load the crowd from its file. If there is no such file of this
 * build, only make the directory options->crowd.
 *    clients    open; each identity goes into its client's store
 *    directory  the coordinator's directory, which is made and filled if the crowd is loaded
 *    taken      written: the crowd was loaded
 * Errors: FED_EFORMAT the file is damaged, or not written by fedsim; FED_EIO, FED_EEXIST the
 * crowd's directory or its file can't be read or written. */
fed_status sim_crowd_take(const sim_clients *clients, const char *directory, bool *taken,
                          fed_error *err) FED_CHECKED;

/** If options->crowd is set, write the crowd: the enrolled clients, and the closed coordinator in
 * `directory`, without a task. FED_EIO, FED_ENOSPC, FED_ENOMEM: an earlier file is unchanged. */
fed_status sim_crowd_keep(const sim_clients *clients, const char *directory,
                          fed_error *err) FED_CHECKED;

/** Say that the coordinator of a crowd that was taken can't be used, and what to do. why: what the
 * coordinator said. Returns status. */
fed_status sim_crowd_refuse(const sim_clients *clients, fed_status status, const fed_error *why,
                            fed_error *err);

#endif
