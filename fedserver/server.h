/* The coordinator's insides: what it holds in memory between requests. */
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
#include "fedserver/rounds/rounds.h"
#include "fedserver/stores/store.h"

/** Since this process started to serve. */
typedef struct fedserver_traffic {
    uint64_t requests, received_bytes, sent_bytes;
} fedserver_traffic;

/** How requests are answered. It is handed in, so that the server does not know the routes, which
 * know the server. */
typedef struct fedserver_routing {
    /** Find the request's route and let it answer. */
    fed_status (*answer)(fedserver *server, const fedserver_request *request, int64_t now_ms,
                         fedserver_response *response, fed_error *err);
    /** Does the process of the rounds answer it, also where the front is another process? */
    bool (*relayed)(const fedserver_request *request);
} fedserver_routing;

/*
 * `rounds` is a cache of the store, filled by the first fedserver_begin. Where the store fails, the
 * server is `broken`: the cache is thrown away with the server instead of being repaired.
 */
struct fedserver {
    char *directory;
    const fed_log *log; /* lines of a batch are written after its commit */
    fedserver_batch_log batch_log;
    const fedserver_store *store;
    void *db;
    const fedserver_routing *routing;
    fedserver_setup setup;
    bool serving; /* the lock is held and the cache is filled */
    bool broken;
    fed_pem ca_key, ca_cert, ca_bundle; /* read when first asked for: auth_open */
    uint64_t authority; /* fedserver_ca_id of the CA that issues; 0: not known. Not in GATE */
    struct fedserver_relay *relay; /* between front and rounds; NULL: one process does both */
    uint16_t front_port, devices_port;
    uint64_t refusals;  /* that the audit log has not said yet, */
    int64_t refusal_ms; /* and when it said some last */
    fedserver_rounds rounds;
    fedserver_traffic traffic;
    fedserver_wire_totals wire;
};

/** Open a coordinator that answers by `routing`, which outlives it. store: how tests inject faults;
 * NULL: the one that the directory names. */
fed_status fedserver_open_with(const char *directory, const fedserver_store *store,
                               const fedserver_routing *routing, const fed_log *log,
                               fedserver **server, fed_error *err) FED_CHECKED;

/** Take over what other processes have written: new devices, revocations, tasks. */
fed_status fedserver_notice_others(fedserver *server, fed_error *err) FED_CHECKED;

/** What enrolment works on. Reads the CA's key: never called in a process without the front. */
fed_status fedserver_auth_open(fedserver *server, fedserver_auth *auth, fed_error *err) FED_CHECKED;

/** Commit what a command has written, or forget it where it failed. */
fed_status fedserver_finish(fedserver *server, fed_status status, fed_error *err) FED_CHECKED;

#endif
