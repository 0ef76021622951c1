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
#include "fedserver/front/liveness.h"
#include "fedserver/held.h"
#include "fedserver/identity/enrolment.h"
#include "fedserver/pauses.h"
#include "fedserver/reopening.h"
#include "fedserver/rounds/rounds.h"
#include "fedserver/stores/store.h"
#include "fedserver/worker_groups.h"

/** Counts since this process started to serve. */
typedef struct fedserver_traffic {
    uint64_t requests, received_bytes, sent_bytes;
} fedserver_traffic;

/** Numbers of devices in memory: first by state, then by what the devices compute on.
 * routes/get_metrics.c counts some devices at a time. */
enum { FEDSERVER_CENSUS = 16 };
typedef struct fedserver_census {
    size_t next; /* index of the device at which counting goes on */
    uint64_t counting[FEDSERVER_CENSUS];
    uint64_t counted[FEDSERVER_CENSUS]; /* numbers of the last complete count */
} fedserver_census;

/** The functions that answer requests. They are pointers because the server must not depend on
 * routes/. */
typedef struct fedserver_routing {
    /** Find the request's route, and answer the request by it. */
    fed_status (*answer)(fedserver *server, const fedserver_request *request, int64_t now_ms,
                         fedserver_response *response, fed_error *err);
    /** Does the rounds' process answer the request, even if it was sent to a front? */
    bool (*relayed)(const fedserver_request *request);
    /** At a follower: answer what each coordinator tells about itself. False: the leader must
     * answer, and *response is unchanged. */
    bool (*alone)(const fedserver *server, const fedserver_request *request,
                  fedserver_response *response);
} fedserver_routing;

/*
 * `rounds` is a cache of the store; at a front it is not filled. If the store fails, the
 * server becomes `broken`: the cache is thrown away together with the server, and is not repaired.
 */
struct fedserver {
    char *directory;
    const fed_log *log; /* the lines of a batch of requests are written after the batch's commit */
    fedserver_batch_log batch_log;
    const fedserver_store *store;
    void *db;                       /* the store's handle; NULL: the store is not open */
    fedserver_reopening *reopening; /* a follower's thread that opens the store again; NULL: none */
    char where[512]; /* where the store keeps its data, as the directory's file `store` says */
    const fedserver_routing *routing;
    fedserver_setup setup;
    bool serving; /* a fedserver_begin has prepared this process to handle requests */
    /* this coordinator does not lead: it has no rounds, and handles no request */
    bool following;
    fedserver_held held;    /* whether another program holds the database */
    bool parted;            /* this process has given up leadership, and is about to end */
    fedserver_lead lead;    /* who leads; only set if the setup has an address */
    int64_t leads_since_ms; /* when this coordinator began to lead; 0: it does not */
    int64_t lead_ms;        /* when the store was last asked who leads, by the monotonic clock */
    uint32_t followers;     /* number of coordinators that pass requests on to this one */
    uint64_t heard_limit;   /* at a follower: the leader's limit of an update's bytes; 0: unknown */
    bool broken;
    bool handling;   /* a fedserver_handle is under way, so its batch commits what it writes */
    int64_t acts_ms; /* when the present minute of acts through the page began */
    uint32_t acts;   /* number of acts in that minute */
    /* fedserver_auth_open reads these when they are first needed */
    fed_issuer *issuer; /* NULL: not read yet */
    fed_pem ca_cert, ca_bundle;
    uint64_t authority;            /* fedserver_ca_id of the issuing CA; 0: not known */
    struct fedserver_relay *relay; /* connects front and rounds; NULL: it is not open */
    fedserver_liveness *liveness;  /* at the rounds' process; NULL: it does not answer yet */
    fedserver_life_question life;  /* at a front */
    uint16_t front_port, devices_port;
    char actor[128];         /* fedserver_act_for; "": not known */
    uint64_t refusals;       /* number of refusals that are not yet in the audit log */
    int64_t refusal_ms;      /* when the audit log last got a line of refusals */
    int64_t refusal_wait_ms; /* least time until the next line about the same refusal */
    uint64_t refusal;        /* digest of that line's reason and visitor */
    fedserver_rounds rounds;
    fedserver_worker_groups groups;
    fedserver_pauses pauses;
    fedserver_traffic traffic;
    fedserver_census census;
    fedserver_wire_totals wire;
    bool is_edge;
    uint32_t upstream_failures; /* an edge aggregator's failed steps in a row */
    uint64_t blobs;             /* how many requests for sealed downloads were answered */
};

/** Open a coordinator that answers by `routing`, which must outlive it. store: if not NULL,
 * replaces the functions of the directory's store, so that tests can inject faults. */
fed_status fedserver_open_with(const char *directory, const fedserver_store *store,
                               const fedserver_routing *routing, const fed_log *log,
                               fedserver **server, fed_error *err) FED_CHECKED;

/** Prepare enrolment. Reads the CA's key, so a process without the front must not call it. */
fed_status fedserver_auth_open(fedserver *server, fedserver_auth *auth, fed_error *err) FED_CHECKED;

/** Commit what a command has written, or roll it back if the command failed. While a request is
 * handled the function does neither: then the batch of requests commits. */
fed_status fedserver_finish(fedserver *server, fed_status status, fed_error *err) FED_CHECKED;

#endif
