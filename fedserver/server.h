/* The coordinator's internals: what the server holds in memory between requests. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_SERVER_H
#define FEDSERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/crypto.h"
#include "fed/log.h"
#include "fedserver/batch_log.h"
#include "fedserver/fedserver.h"
#include "fedserver/identity/enrolment.h"
#include "fedserver/reopening.h"
#include "fedserver/rounds/rounds.h"
#include "fedserver/stores/store.h"
#include "fedserver/worker_groups.h"

/** Counts since this process started to serve. */
typedef struct fedserver_traffic {
    uint64_t requests, received_bytes, sent_bytes;
} fedserver_traffic;

/** Devices in memory by state, then by what they compute on; routes/get_metrics.c counts them, a
 * part at a time. */
enum { FEDSERVER_CENSUS = 16 };
typedef struct fedserver_census {
    size_t next; /* the device at which counting goes on */
    uint64_t counting[FEDSERVER_CENSUS];
    uint64_t counted[FEDSERVER_CENSUS]; /* as of the last time that all were counted */
} fedserver_census;

/** How requests are answered. The caller hands in the routing, since the routes include the
 * server, and the server must not include the routes. */
typedef struct fedserver_routing {
    /** Find the request's route, and answer the request by it. */
    fed_status (*answer)(fedserver *server, const fedserver_request *request, int64_t now_ms,
                         fedserver_response *response, fed_error *err);
    /** Does the rounds process answer the request, even if the front is another process? */
    bool (*relayed)(const fedserver_request *request);
} fedserver_routing;

/*
 * `rounds` is a cache of the store, filled by the first fedserver_begin. If the store fails, the
 * server becomes `broken`: the cache is thrown away together with the server, and is not repaired.
 */
struct fedserver {
    char *directory;
    const fed_log *log; /* the lines of a batch are written after the batch is committed */
    fedserver_batch_log batch_log;
    const fedserver_store *store;
    void *db;                       /* NULL: it is being reopened, or that has failed */
    fedserver_reopening *reopening; /* of a follower's store; NULL: it is open */
    char where[512];                /* of the store */
    const fedserver_routing *routing;
    fedserver_setup setup;
    bool serving; /* the lock is held and the cache is filled */
    /* another coordinator leads, or none yet: this one has no rounds, and answers nothing itself */
    bool following;
    bool parted;          /* this process has let go of the lead, and is about to end */
    fedserver_lead lead;  /* who leads, where the setup has an address */
    int64_t lead_ms;      /* when the store was asked last, by the monotonic clock */
    uint32_t followers;   /* coordinators that pass requests on to this one; the adapter counts */
    uint64_t heard_limit; /* a follower: most bytes of an update, its leader says; 0: not known */
    bool broken;
    /* fedserver_auth_open reads these when they are first needed */
    fed_pem ca_key, ca_cert, ca_bundle;
    /* fedserver_ca_id of the CA that issues certificates; 0: not known. Not in GATE */
    uint64_t authority;
    struct fedserver_relay *relay; /* connects front and rounds; NULL: one process does both */
    uint16_t front_port, devices_port;
    uint64_t refusals;  /* refusals that the audit log does not have yet */
    int64_t refusal_ms; /* time when the audit log last had refusals */
    fedserver_rounds rounds;
    fedserver_worker_groups groups;
    fedserver_traffic traffic;
    fedserver_census census;
    fedserver_wire_totals wire;
    uint64_t blobs; /* sealed downloads that caches have asked for */
};

/** Open a coordinator that answers by `routing`, which must outlive the coordinator. store:
 * tests inject faults with it; NULL: the store that the directory names. */
fed_status fedserver_open_with(const char *directory, const fedserver_store *store,
                               const fedserver_routing *routing, const fed_log *log,
                               fedserver **server, fed_error *err) FED_CHECKED;

/** Open what enrolment needs. Reads the CA's key, so a process without the front never calls
 * this. */
fed_status fedserver_auth_open(fedserver *server, fedserver_auth *auth, fed_error *err) FED_CHECKED;

/** Commit what a command has written, or roll it back if the command failed. */
fed_status fedserver_finish(fedserver *server, fed_status status, fed_error *err) FED_CHECKED;

#endif
