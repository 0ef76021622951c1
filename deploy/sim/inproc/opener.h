/* The helper of a run in one process: it opens the sums of private rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_OPENER_H
#define FEDSIM_OPENER_H

#include "deploy/sim/inproc/host.h"
#include "fed/hash.h"
#include "fed/privacy.h"
#include "fedserver/private_helper.h"

/* It is the helper's own code, fedserver/private_helper.h, without a network: it asks the
 * coordinator what it owes whenever something happened there, and takes no virtual time. */
typedef struct sim_opener {
    fedserver_helper *helper;             /* NULL: the run has none */
    fed_pem key;                          /* it enrols with it, and clients seal to it */
    uint8_t fingerprint[FED_SHA256_SIZE]; /* of that key */
    int64_t cpu_us;                       /* CPU time of its answers */
} sim_opener;

/** With options->helper: open the helper. What it remembers lies in options->state, or without such
 * a directory in memory. */
fed_status sim_opener_open(sim_opener *opener, const sim_options *options,
                           fed_error *err) FED_CHECKED;
/** Enrol it at the coordinator, which is open. A resumed run is enrolled already. */
fed_status sim_opener_enrol(sim_opener *opener, sim_host *host, fed_error *err) FED_CHECKED;
void sim_opener_close(sim_opener *opener);

/** A question of the coordinator's, and what the helper answers. */
typedef struct sim_opening {
    fedserver_inquiry question;
    fedserver_reply reply;
} sim_opening;

/** Ask the coordinator whether a round waits for the helper. *waits: it does, and all that the
 * question depends on is committed. Then answer it, and end with sim_opener_give. */
fed_status sim_opener_ask(sim_opener *opener, sim_host *host, int64_t us, sim_opening *opening,
                          bool *waits, fed_error *err) FED_CHECKED;
/** Add up the masks. Neither coordinator nor clients are touched. FED_ESTATE: the helper opens
 * nothing; *err says why. */
fed_status sim_opener_answer(sim_opener *opener, sim_opening *opening, fed_error *err) FED_CHECKED;
/** Give the answer to the coordinator. Frees *opening, also after an error. */
fed_status sim_opener_give(sim_opener *opener, sim_host *host, int64_t us, sim_opening *opening,
                           fed_error *err) FED_CHECKED;
/** Free what sim_opener_ask and sim_opener_answer have made. */
void sim_opening_free(sim_opening *opening);

#endif
