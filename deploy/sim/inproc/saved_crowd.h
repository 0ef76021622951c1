/* A crowd that runs share: simulated clients that have enrolled, and their coordinator. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SAVED_CROWD_H
#define FEDSIM_SAVED_CROWD_H

#include <stdbool.h>

#include "deploy/sim/clients/clients.h"

/*
 * To enrol costs milliseconds of CPU time a client: a key, a signature, a certificate. With
 * options->crowd, a directory, a run keeps what its enrolment has made. A later run of as many
 * clients begins there.
 *
 * It is one file, DIR/simulated-crowd-N, of N clients and an evaluator. The file holds private
 * keys, and only its owner may read it. A real federation never meets these keys:
 *
 *   - The file is neither a coordinator's directory nor a device's store, so only fedsim reads it.
 *   - Only a run in one process reads it. There no TLS is spoken, and no key is shown to anybody.
 *   - Its certificates are of a CA of its own, which has enrolled nobody else.
 *
 * The file is replaced whole. A run of another release makes it anew.
 */

/** Begin with the crowd that is kept, if there is one. Otherwise nothing is done, except that the
 * crowd's directory is made.
 *    clients    open; each identity goes into its client's store
 *    directory  the coordinator's, which is made
 *    taken      written: there is such a crowd
 * Errors: FED_EFORMAT the file is damaged, or none of fedsim's; FED_EIO, FED_EEXIST nothing can be
 * read there, or kept. */
fed_status sim_crowd_take(const sim_clients *clients, const char *directory, bool *taken,
                          fed_error *err) FED_CHECKED;

/** Keep the crowd, if the options ask for it. All clients have enrolled with the coordinator of
 * that directory, which has no task yet and is closed. FED_EIO, FED_ENOSPC, FED_ENOMEM: what was
 * kept before is unchanged. */
fed_status sim_crowd_keep(const sim_clients *clients, const char *directory,
                          fed_error *err) FED_CHECKED;

#endif
