/* A client's transport that lets some uploads break. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_LOSSY_H
#define FEDSIM_LOSSY_H

#include <stdint.h>

#include "fedclient/transport.h"

/** The part of sim_lossy that a stopped run saves: numbers of fixed size, without padding. */
typedef struct sim_lossy_kept {
    uint32_t uploads; /* uploads tried so far */
    uint32_t broken;  /* uploads that broke so far */
} sim_lossy_kept;

/** Wraps a transport. The caller fills in all members but `kept`, then calls sim_lossy_open. */
typedef struct sim_lossy {
    fedclient_transport inner;
    uint64_t seed; /* the run's seed */
    uint32_t k;    /* number of the client */
    double rate;   /* fraction of the uploads that break */
    /** Called when an answer has come, before the client reads it. May be NULL. */
    void (*answered)(void *user, const fedclient_request *request);
    void *user; /* first argument of answered */
    sim_lossy_kept kept;
} sim_lossy;

/** Make *outer the transport that sends through lossy->inner. *lossy must outlive *outer. */
void sim_lossy_open(sim_lossy *lossy, fedclient_transport *outer);

#endif
