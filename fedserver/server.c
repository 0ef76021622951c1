/* The coordinator as a whole: is opened, handles requests in batches, is closed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/server.h"
#include "fedserver/rounds/openings.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedserver/front/relay.h"
#include "fedserver/identity/certificates.h"
#include "fedserver/identity/enrolment.h"
#include "fedserver/memory_note.h"
#include "fedserver/paths.h"
#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/queue.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/rounds/running.h"
#include "fedserver/rounds/turns.h"
#include "fedserver/rounds/update_limit.h"
#include "fedserver/stores/stores.h"
#include "fedserver/task/private_task.h"

enum { PATH_SIZE = 1024, TICK_MS = 1000, LEAD_LOOK_MS = 100 };
enum { DEVICE_LIFE_S = 730 * 24 * 3600 };

fed_status fedserver_open_with(const char *directory, const fedserver_store *store,
                               const fedserver_routing *routing, const fed_log *log,
                               fedserver **server, fed_error *err) {
    fedserver_store_choice choice;
    FED_TRY(fedserver_store_present(directory, &choice, err));
    store = store != NULL ? store : choice.store;
    fedserver *made = calloc(1, sizeof *made);
    char *copy = made != NULL ? strdup(directory) : NULL;
    if (copy == NULL) {
        free(made);
        return fed_fail(err, FED_ENOMEM, "out of memory for the coordinator");
    }
    made->directory = copy;
    fedserver_batch_log_init(&made->batch_log, log);
    made->log = &made->batch_log.log;
    made->store = store;
    made->routing = routing;
    made->life = FEDSERVER_LIFE_QUESTION;
    fed_status status = store->open(directory, choice.where, &made->db, err);
    strcpy(made->where, choice.where);
    made->rounds = (fedserver_rounds){.store = store,
                                      .db = made->db,
                                      .log = made->log,
                                      .directory = copy,
                                      .where = made->where,
                                      .opening = fedserver_openings_take_off,
                                      .bell = -1,
                                      .epoch = 1};
    if (status != FED_OK) {
        fedserver_close(made);
        return status;
    }
    *server = made;
    return FED_OK;
}

void fedserver_close(fedserver *server) {
    if (server == NULL) {
        return;
    }
    fedserver_batch_log_free(&server->batch_log);
    fedserver_relay_close(server->relay);
    fedserver_liveness_close(server->liveness);
    fedserver_life_forget(&server->life);
    fedserver_let_go(server); /* before the threads are ended, which may take a while */
    fedserver_rounds_free(&server->rounds); /* ends the threads that write to the eventfd `bell` */
    if (server->rounds.bell >= 0) {
        close(server->rounds.bell);
    }
    fedserver_worker_groups_free(&server->groups);
    fedserver_pauses_free(&server->pauses);
    if (server->reopening != NULL) {
        fed_error unused = {0};
        (void)!fedserver_reopening_end(server->reopening, &server->db, &unused);
    }
    if (server->db != NULL) {
        server->store->close(server->db);
    }
    fed_issuer_free(server->issuer);
    free(server->directory);
    free(server);
}

fedserver_wire_totals *fedserver_wire(fedserver *server) {
    return &server->wire;
}

const char *fedserver_directory(const fedserver *server) {
    return server->directory;
}

void fedserver_ports(fedserver *server, uint16_t front_port, uint16_t devices_port) {
    server->front_port = front_port;
    server->devices_port = devices_port;
    fed_error err = {0};
    if (front_port != 0 &&
        fedserver_front_note_write(server->directory, front_port, &err) != FED_OK) {
        /* `fedserver page` then prints another port; the coordinator serves all the same */
        fed_logf(server->log, FED_LOG_WARN, "the front's port can't be noted: %s", err.text);
    }
}

void fedserver_configure(fedserver *server, const fedserver_setup *setup) {
    server->setup = *setup;
}

int fedserver_wake_fd(const fedserver *server) {
    return server->relay != NULL ? fedserver_relay_fd(server->relay) : server->rounds.bell;
}

uint64_t fedserver_epoch(const fedserver *server) {
    return server->rounds.epoch;
}

uint64_t fedserver_woken(fedserver *server) {
    return fedserver_wakes_take(&server->rounds);
}

uint32_t fedserver_version(const fedserver *server, bool *running) {
    const fedserver_training *t = fedserver_rounds_front(&server->rounds);
    *running = t != NULL && fedserver_training_runs(t);
    return t != NULL ? t->versions.version : 0;
}

fed_status fedserver_ca_look(fedserver *server, int64_t now_ms, fedserver_ca_change *change,
                             fed_error *err) {
    return fedserver_ca_look_at(server->directory, server->store, server->db, now_ms, change, err);
}

void fedserver_certificates_changed(fedserver *server) {
    fed_issuer_free(server->issuer);
    server->issuer = NULL;
    server->authority = fedserver_ca_id_at(server->directory);
}

static fed_status read_ca(fedserver *server, fed_error *err) {
    fed_pem key;
    FED_TRY(fedserver_pem_read(server->directory, "ca.pem", &server->ca_bundle, err));
    FED_TRY(fedserver_pem_read(server->directory, "ca.key", &key, err));
    fed_status status = fedserver_ca_pick(&server->ca_bundle, &key, &server->ca_cert, err);
    if (status == FED_OK) {
        status = fed_issuer_new(&key, &server->ca_cert, &server->issuer, err);
    }
    fed_wipe(&key, sizeof key);
    return status;
}

fed_status fedserver_auth_open(fedserver *server, fedserver_auth *auth, fed_error *err) {
    assert(server->setup.part != FEDSERVER_ROUNDS);
    if (server->issuer == NULL) {
        FED_TRY(read_ca(server, err));
        char path[4096];
        struct stat file;
        fedserver_path(server->directory, "ca.key", path, sizeof path);
        if (stat(path, &file) == 0 && (file.st_mode & 077) != 0) {
            fed_logf(server->log, FED_LOG_WARN,
                     "%s can be read by others (mode %04o): chmod 0600 it; whoever has read it can "
                     "enrol what they like",
                     path, (unsigned)file.st_mode & 07777);
        }
    }
    int64_t life_s = server->setup.device_life_s;
    *auth = (fedserver_auth){
        .store = server->store,
        .db = server->db,
        .devices = server->setup.part == FEDSERVER_WHOLE ? &server->rounds.devices : NULL,
        .issuer = server->issuer,
        .ca_cert = &server->ca_cert,
        .life_s = life_s != 0 ? life_s : DEVICE_LIFE_S};
    return FED_OK;
}

static bool shares(const fedserver *server) {
    return server->setup.address != NULL && server->setup.part != FEDSERVER_GATE;
}

/* Open the sockets between front and rounds, where they are two processes. */
static fed_status open_sockets(fedserver *server, fed_error *err) {
    if (server->setup.part == FEDSERVER_WHOLE || server->relay != NULL) {
        return FED_OK;
    }
    if (server->setup.part == FEDSERVER_ROUNDS) {
        FED_TRY(fedserver_liveness_open(server->directory, &server->liveness, err));
    }
    return fedserver_relay_open(server->directory, server->setup.part, server->log, &server->relay,
                                err);
}

static fed_status start_serving(fedserver *server, fed_error *err) {
    if (server->setup.part == FEDSERVER_GATE) {
        fedserver_auth auth;
        FED_TRY(fedserver_auth_open(server, &auth, err));
    } else {
        if (!shares(server)) {
            /* where coordinators share a store, the leader has the lock already */
            FED_TRY(server->store->lock(server->db, err));
        }
        FED_TRY(server->store->recover(server->db, err));
        FED_TRY(fedserver_devices_start(&server->rounds, err));
        FED_TRY(fedserver_memory_note_write(server->directory, server->setup.task_memory, err));
        server->rounds.memory_limit = server->setup.task_memory;
        FED_TRY(fedserver_tasks_load(&server->rounds, false, err));
        FED_TRY(fedserver_update_limit_load(&server->rounds, err));
        server->authority = fedserver_ca_id_at(server->directory);
    }
    FED_TRY(open_sockets(server, err));
    if (server->setup.part != FEDSERVER_GATE && server->setup.apart_values > 0) {
        const int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (bell < 0) {
            return fed_fail(
                err, FED_EIO,
                "the system gives no descriptor by which a thread could wake this process: allow "
                "more open files (ulimit -n, LimitNOFILE)");
        }
        server->rounds.bell = bell;
        server->rounds.apart_values = server->setup.apart_values;
        fedserver_relay_watch(server->relay, bell);
    }
    server->serving = true;
    return FED_OK;
}

static fed_status fail_alone(const fedserver *server, fed_error *err) {
    const fedserver_store *sharing = NULL;
    for (size_t k = 0; sharing == NULL && fedserver_store_at(k) != NULL; k++) {
        sharing = fedserver_store_at(k)->lead != NULL ? fedserver_store_at(k) : NULL;
    }
    return fed_fail(err, FED_EINVAL,
                    "several coordinators can't share the store %s%s%s; serve alone, without "
                    "--cluster",
                    server->store->name, sharing != NULL ? "; make one on " : "",
                    sharing != NULL ? sharing->name : "");
}

/* Ask the store who leads. If a follower's connection to the store is broken, perhaps because the
 * database has failed over, the follower opens a new one. A follower has no rounds in memory that
 * could be lost. Its devices' connections and its link to the leader stay open. */
static fed_status ask_who_leads(fedserver *server, fed_error *err) {
    fed_error why = {0};
    fedserver_lead lead = {.mine = false};
    const fed_status status = server->store->lead(server->db, server->setup.address, &lead, &why);
    if (status == FED_EIO && !server->serving) {
        fed_logf(server->log, FED_LOG_WARN, "%s; this coordinator connects to the store again",
                 why.text);
        void *old = server->db;
        server->db = server->rounds.db = NULL;
        return fedserver_reopening_begin(server->store, server->directory, server->where, old,
                                         &server->reopening, err);
    }
    FED_REQUIRE(status == FED_OK, fed_fail(err, status, "%s", why.text));
    server->lead = lead;
    return FED_OK;
}

static fed_status look_who_leads(fedserver *server, fed_error *err) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    if (server->lead_ms != 0 && now_ms - server->lead_ms < LEAD_LOOK_MS) {
        return FED_OK;
    }
    if (server->store->lead == NULL) {
        return fail_alone(server, err);
    }
    if (server->reopening != NULL) {
        if (!fedserver_reopening_ended(server->reopening)) {
            return FED_OK;
        }
        fedserver_reopening *reopening = server->reopening;
        server->reopening = NULL;
        FED_TRY(fedserver_reopening_end(reopening, &server->db, err));
        server->rounds.db = server->db;
    }
    server->lead_ms = now_ms;
    return ask_who_leads(server, err);
}

static fed_status follow(fedserver *server, fed_error *err) {
    const uint64_t before = server->lead.term;
    server->following = true;
    FED_TRY(server->setup.part == FEDSERVER_ROUNDS ? open_sockets(server, err) : FED_OK);
    FED_TRY(look_who_leads(server, err));
    const fedserver_lead *lead = &server->lead;
    if (lead->mine) {
        fed_logf(server->log, FED_LOG_INFO, "this coordinator leads: term %llu",
                 (unsigned long long)lead->term);
    } else if (lead->term != before && lead->address[0] != '\0') {
        fed_logf(server->log, FED_LOG_INFO, "the coordinator at %s leads: term %llu", lead->address,
                 (unsigned long long)lead->term);
    }
    if (server->lead.mine) {
        server->rounds.term = server->lead.term;
        server->leads_since_ms = fed_clock_unix_ms();
        FED_TRY(start_serving(server, err));
        server->following = false;
    }
    return FED_OK;
}

static fed_status go_on_leading(fedserver *server, fed_error *err) {
    FED_TRY(look_who_leads(server, err));
    if (!server->lead.mine) { /* S6 in docs/durability.md: one process does the rounds */
        return fed_fail(err, FED_ESTATE,
                        "another coordinator leads now, because this one did not renew its lead "
                        "in time; this process ends, and its next start follows");
    }
    return FED_OK;
}

void fedserver_let_go(fedserver *server) {
    const bool lets_go = server->store->let_go != NULL && server->db != NULL;
    if (shares(server) && !server->parted && lets_go) {
        server->store->let_go(server->db);
        server->parted = true;
    }
}

/* Does another program hold the database, so that the process of the rounds can only wait? */
static bool waits_for_database(const fedserver *server) {
    return server->setup.part == FEDSERVER_ROUNDS && fedserver_is_held(&server->held);
}

/* Can this process only read its store, for the page and the health check? */
static bool shows_only(const fedserver *server) {
    return server->serving && waits_for_database(server);
}

static bool acts(const fedserver *server) {
    return server->serving && !server->parted && !waits_for_database(server);
}

/* Mark the server as broken if status is an error: the rounds in memory may then differ from the
 * store, until the server is closed and opened again. */
static fed_status note(fedserver *server, fed_status status) {
    server->broken = server->broken || status != FED_OK;
    return status;
}

/* The process of the rounds reserves a database that other programs may hold, for each batch. A
 * front does so until a database that was held is free. */
static fed_status reserve(fedserver *server, fed_error *err) {
    const bool due = server->setup.part == FEDSERVER_ROUNDS || fedserver_is_held(&server->held);
    return due && !shares(server)
               ? note(server, fedserver_held_reserve(&server->held, server->store, server->db,
                                                     server->log, err))
               : FED_OK;
}

fed_status fedserver_begin(fedserver *server, fed_error *err) {
    fedserver_liveness_note(server->liveness, fed_clock_monotonic_ms());
    if (server->broken) {
        return fed_fail(err, FED_ESTATE,
                        "the coordinator has failed before: close it and open it again");
    }
    FED_TRY(reserve(server, err));
    if (shares(server) && !server->parted) {
        FED_TRY(note(server, server->serving ? go_on_leading(server, err) : follow(server, err)));
    } else if (!shares(server) && !server->serving && !waits_for_database(server)) {
        FED_TRY(note(server, start_serving(server, err)));
        FED_TRY(reserve(server, err)); /* the start has ended the reservation */
    }
    fedserver_batch_log_begin(&server->batch_log);
    if (!acts(server)) {
        return FED_OK;
    }
    server->rounds.asked = false;
    server->rounds.wakes.count = 0;
    bool changed = false; /* the command line may have queued a task or revoked a device */
    if (server->setup.part != FEDSERVER_GATE) {
        FED_TRY(note(server, server->store->changed(server->db, &changed, err)));
    }
    if (changed) {
        server->rounds.queue_changed = true;
        server->rounds.tasks_changed = true;
        FED_TRY(note(server, fedserver_devices_follow(&server->rounds, err)));
    }
    return note(server, fedserver_queue_follow(&server->rounds, err));
}

/* Must this request wait until another program has let go of a front's database? */
static bool must_wait(const fedserver *server, const fedserver_request *request) {
    const bool held = server->setup.part == FEDSERVER_GATE && server->store->reserve != NULL &&
                      fedserver_is_held(&server->held);
    return held && strcmp(request->method, "GET") != 0;
}

/* A front can't write, because another program holds the database. The front has nothing in memory
 * that is untrue now, and no earlier request of the batch has written. So only this request fails,
 * and the batch goes on. */
static fed_status answer_held(fedserver *server, const fed_error *why,
                              fedserver_response *response) {
    fedserver_held_note(&server->held, server->log, why);
    server->store->rollback(server->db);
    *response = (fedserver_response){.status = 503, .retry_after_s = 1};
    return FED_OK;
}

fed_status fedserver_handle(fedserver *server, const fedserver_request *request, int64_t now_ms,
                            fedserver_response *response, fed_error *err) {
    assert(!server->broken);
    if (!acts(server) || must_wait(server, request)) {
        *response = (fedserver_response){.status = 503, .retry_after_s = 1};
        return FED_OK;
    }
    server->rounds.asked = true;
    if (server->setup.part != FEDSERVER_GATE) {
        FED_TRY(note(server, fedserver_rounds_advance(&server->rounds, now_ms, err)));
    }
    *response = (fedserver_response){.status = 200};
    const bool wrote = server->store->writing(server->db);
    fed_error why = {0};
    server->handling = true;
    fed_status status = server->routing->answer(server, request, now_ms, response, &why);
    server->handling = false;
    if (status != FED_OK) {
        fedserver_blob_free(response->body);
        *response = (fedserver_response){0};
    }
    /* S1 in docs/durability.md: what earlier requests of the batch wrote is not rolled back. */
    if (status == FED_EBUSY && server->setup.part == FEDSERVER_GATE && !wrote) {
        return answer_held(server, &why, response);
    }
    return status == FED_OK ? FED_OK : note(server, fed_fail(err, status, "%s", why.text));
}

/* The front has already checked who asks. */
static fed_status answer_front(void *user, const char *path, int64_t now_ms, bool *known,
                               fedserver_response *response, fed_error *err) {
    fedserver *server = user;
    const fedserver_request request = {
        .listener = FEDSERVER_FRONT, .method = "GET", .path = path, .query = ""};
    *known = server->routing->relayed(&request);
    return *known ? server->routing->answer(server, &request, now_ms, response, err) : FED_OK;
}

static int64_t next_tick_ms(const fedserver_rounds *rounds, int64_t now_ms) {
    int64_t next_ms = now_ms + TICK_MS;
    for (size_t k = 0; k < rounds->task_count; k++) {
        const fedserver_training *t = rounds->tasks[k];
        if (!fedserver_training_runs(t)) {
            continue;
        }
        const bool closing = t->round.phase == FEDSERVER_ROUND_CLOSING;
        if (closing && t->closing == NULL && !fedserver_task_has_helper(&t->task)) {
            return now_ms;
        }
        if (t->round.deadline_ms > now_ms && t->round.deadline_ms < next_ms) {
            next_ms = t->round.deadline_ms;
        }
        next_ms = t->lease_ends_ms < next_ms ? t->lease_ends_ms : next_ms;
    }
    return next_ms;
}

fed_status fedserver_tick(fedserver *server, int64_t now_ms, int64_t *next_ms, fed_error *err) {
    assert(!server->broken);
    if (!acts(server)) {
        *next_ms = now_ms + LEAD_LOOK_MS;
        return shows_only(server) ? note(server, fedserver_relay_serve(server->relay, answer_front,
                                                                       server, now_ms, err))
                                  : FED_OK;
    }
    if (server->setup.part == FEDSERVER_GATE) {
        *next_ms = now_ms + TICK_MS;
        server->rounds.epoch += fedserver_relay_receive(server->relay);
        return FED_OK;
    }
    /* The eventfd only wakes this thread; fedserver_rounds_advance looks which threads have ended.
     * Read the eventfd before: a thread that ends after the look then wakes this thread again. */
    uint64_t rung;
    const ssize_t got =
        server->rounds.bell >= 0 ? read(server->rounds.bell, &rung, sizeof rung) : 0;
    (void)got;
    FED_TRY(note(server, fedserver_rounds_advance(&server->rounds, now_ms, err)));
    int64_t queue_ms = INT64_MAX;
    FED_TRY(note(server, fedserver_queue_advance(&server->rounds, now_ms, &queue_ms, err)));
    *next_ms = next_tick_ms(&server->rounds, now_ms);
    *next_ms = queue_ms < *next_ms ? queue_ms : *next_ms;
    int64_t wake_ms = fedserver_slots_wake(&server->rounds, now_ms);
    *next_ms = wake_ms < *next_ms ? wake_ms : *next_ms;
    FED_TRY(note(server, fedserver_devices_save(&server->rounds, now_ms, err)));
    return note(server, fedserver_relay_serve(server->relay, answer_front, server, now_ms, err));
}

fed_status fedserver_commit(fedserver *server, fed_error *err) {
    assert(!server->broken);
    fedserver_liveness_note(server->liveness, fed_clock_monotonic_ms());
    if (!acts(server)) {
        fedserver_batch_log_end(&server->batch_log, true);
        if (shows_only(server)) {
            fedserver_relay_send(server->relay);
        }
        return FED_OK;
    }
    const bool wrote = server->store->writing(server->db);
    FED_TRY(note(server, server->store->commit(server->db, err)));
    fedserver_batch_log_end(&server->batch_log, true);
    if (wrote) {
        fedserver_held_end(&server->held, server->log);
    }
    fedserver_rounds_committed(&server->rounds);
    fedserver_relay_send(server->relay);
    return FED_OK;
}

bool fedserver_settled(const fedserver *server) {
    return !acts(server) || !server->store->writing(server->db);
}

fed_status fedserver_finish(fedserver *server, fed_status status, fed_error *err) {
    return server->handling ? status
                            : fedserver_store_finish(server->store, server->db, status, err);
}
