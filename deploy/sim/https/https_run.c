/* A run over HTTPS: starts a coordinator process, a helper process if there is one, and a thread
 * for each client; watches them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/https/https_run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/sim/clients/coordinator.h"
#include "deploy/sim/clients/run_log.h"
#include "deploy/sim/https/helper_process.h"
#include "deploy/sim/https/https_clients.h"
#include "fed/clock.h"
#include "fed/file.h"

enum { POLL_MS = 200, END_LIMIT_MS = 60000, TOKENS_LIMIT = 1 << 26 };

/** The processes of a run. */
typedef struct processes {
    sim_coordinator coordinator;
    sim_helper_process helper;
} processes;

static fed_status restart(sim_coordinator *coordinator, sim_clients *clients, fed_error *err) {
    fprintf(stderr, "fedsim: round %u: killing the coordinator, then starting it again\n",
            clients->options->kill_round);
    FED_TRY(sim_coordinator_stop(coordinator, SIGKILL, err));
    FED_TRY(sim_coordinator_start(coordinator, err));
    pthread_mutex_lock(&clients->mutex);
    clients->kill_due = false;
    clients->log->kills++;
    sim_https_clients_assign(clients);
    pthread_mutex_unlock(&clients->mutex);
    return FED_OK;
}

/** Restart the coordinator if that is due. p NULL: it is not fedsim's. FED_ESTATE: the run is over,
 * or a client has failed. */
static fed_status look(processes *p, sim_clients *clients, const sim_watch *watch,
                       int64_t *finished_ms, fed_error *err) {
    pthread_mutex_lock(&clients->mutex);
    size_t running = clients->kept.running;
    fed_status seen = p == NULL ? sim_note_seen(clients) : FED_OK;
    bool over = running == 0 || clients->failed > 0, kill_due = clients->kill_due;
    bool finished = clients->kept.finished;
    pthread_mutex_unlock(&clients->mutex);
    FED_TRY(seen);
    FED_REQUIRE(!over, FED_ESTATE);
    int64_t now = fed_clock_monotonic_ms();
    *finished_ms = finished && *finished_ms == 0 ? now : *finished_ms;
    if (*watch->stop != 0) {
        return fed_fail(err, FED_ECANCELED, "stopped in round %u", clients->kept.round);
    }
    if (*finished_ms != 0 && now - *finished_ms > END_LIMIT_MS) {
        return fed_fail(err, FED_ETIMEOUT, "%zu clients still run a minute after the task's end",
                        running);
    }
    if (p == NULL) {
        return FED_OK;
    }
    FED_TRY(sim_helper_alive(&p->helper, err));
    return kill_due ? restart(&p->coordinator, clients, err)
                    : sim_coordinator_alive(&p->coordinator, err);
}

static fed_status attend(processes *p, sim_clients *clients, const sim_watch *watch,
                         fed_error *err) {
    fed_status status = FED_OK;
    for (int64_t finished_ms = 0; status == FED_OK;) {
        sim_https_clients_wait(clients, POLL_MS);
        status = look(p, clients, watch, &finished_ms, err);
        sim_clients_show(clients, watch, 0);
    }
    return status == FED_ESTATE ? FED_OK : status;
}

static fed_status live(processes *p, sim_clients *clients, const sim_watch *watch,
                       char (*token)[FEDSERVER_TOKEN], fed_error *err) {
    sim_coordinator *coordinator = &p->coordinator;
    char server[64];
    snprintf(server, sizeof server, "https://127.0.0.1:%u", coordinator->front_port);
    clients->server = server;
    clients->ca = coordinator->ca.text;
    if (watch->listening != NULL) {
        watch->listening(watch->user, coordinator->front_port, coordinator->directory);
    }
    fed_status status = sim_https_clients_start(clients, clients->client_count, token, err);
    if (status == FED_OK) {
        status = attend(p, clients, watch, err);
    }
    sim_https_clients_stop(clients);
    fed_error own = {0};
    fed_status stopped = sim_coordinator_stop(coordinator, SIGTERM, &own);
    sim_https_clients_end(clients);
    FED_TRY(status);
    FED_TRY(sim_clients_failure(clients, err));
    return stopped == FED_OK ? FED_OK : fed_fail(err, stopped, "%s", own.text);
}

static fed_status read_back(const sim_coordinator *coordinator, sim_clients *clients,
                            fed_error *err) {
    fedserver *server = NULL;
    FED_TRY(fedserver_open(coordinator->directory, NULL, &server, err));
    fed_status status = sim_note_rounds(clients, server, UINT32_MAX, err);
    fedserver_close(server);
    return status;
}

static fed_status serve(processes *p, sim_clients *clients, const sim_watch *watch,
                        uint64_t *digest, fed_error *err) {
    sim_coordinator *coordinator = &p->coordinator;
    const size_t tokens = clients->client_count;
    char(*token)[FEDSERVER_TOKEN] = calloc(tokens, sizeof *token);
    FED_REQUIRE(token != NULL, FED_ENOMEM);
    fed_status status = sim_coordinator_prepare(coordinator, clients->options, tokens, token, err);
    if (status == FED_OK) {
        status = sim_coordinator_start(coordinator, err);
    }
    if (status == FED_OK) {
        status = sim_helper_start(&p->helper, coordinator, clients->options, err);
    }
    if (status == FED_OK) {
        status = live(p, clients, watch, token, err);
    }
    free(token);
    if (status == FED_OK || status == FED_ECANCELED) {
        fed_error own = {0};
        fed_status read = read_back(coordinator, clients, &own);
        status = read == FED_OK || status != FED_OK ? status : fed_fail(err, read, "%s", own.text);
    }
    FED_TRY(status);
    return sim_coordinator_result(coordinator, clients->options->model, digest, err);
}

/** Read a token for each client. Lines that are empty or begin with '#' are for people. */
static fed_status read_tokens(const sim_options *o, char (*token)[FEDSERVER_TOKEN],
                              fed_error *err) {
    uint8_t *data = NULL;
    size_t len = 0;
    uint32_t found = 0;
    FED_TRY(fed_file_read(o->tokens, TOKENS_LIMIT, &data, &len, err));
    fed_status status = FED_OK;
    unsigned number = 1;
    for (char *line = (char *)data; status == FED_OK && found < o->clients && *line != '\0';) {
        const size_t size = strcspn(line, "\r\n");
        if (size >= FEDSERVER_TOKEN) {
            status = fed_fail(err, FED_EFORMAT, "%s:%u: this is no token, which has %d characters",
                              o->tokens, number, FEDSERVER_TOKEN - 1);
        } else if (size > 0 && line[0] != '#') {
            memcpy(token[found], line, size);
            token[found++][size] = '\0';
        }
        line += size;
        number += *line == '\n';
        line += *line != '\0';
    }
    free(data);
    FED_TRY(status);
    return found == o->clients
               ? FED_OK
               : fed_fail(err, FED_EINVAL,
                          "%s: has %u tokens for %u clients; `fedserver token --count %u` prints "
                          "enough",
                          o->tokens, found, o->clients, o->clients);
}

static fed_status read_trust(const sim_options *o, fed_pem *ca, fed_error *err) {
    uint8_t *data = NULL;
    size_t len = 0;
    FED_TRY(fed_file_read(o->ca, sizeof ca->text - 1, &data, &len, err));
    memcpy(ca->text, data, len);
    ca->text[len] = '\0';
    free(data);
    return FED_OK;
}

static fed_status refuse_foreign(const sim_clients *clients, fed_error *err) {
    fed_error why = {0};
    const fed_status status = sim_clients_failure(clients, &why);
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status, "server=%s: %s", clients->options->server, why.text);
}

/** All clients with a model hold the same one, if all is well: that is the run's model. */
static uint64_t common_digest(const sim_clients *clients) {
    uint64_t digest = 0;
    for (uint32_t k = 0; k < clients->options->clients && digest == 0; k++) {
        digest = clients->client[k].kept.has_model ? clients->client[k].kept.digest : 0;
    }
    return digest;
}

/** Take part in the task of a coordinator that is not fedsim's. */
static fed_status join(sim_clients *clients, const sim_watch *watch, char (*token)[FEDSERVER_TOKEN],
                       uint64_t *digest, fed_error *err) {
    const sim_options *o = clients->options;
    fed_pem ca;
    FED_TRY(read_tokens(o, token, err));
    FED_TRY(read_trust(o, &ca, err));
    clients->server = o->server;
    clients->ca = ca.text;
    fed_status status = sim_https_clients_start(clients, o->clients, token, err);
    if (status == FED_OK) {
        status = attend(NULL, clients, watch, err);
    }
    sim_https_clients_stop(clients);
    sim_https_clients_end(clients);
    clients->ca = NULL;
    FED_TRY(status);
    FED_TRY(refuse_foreign(clients, err));
    FED_TRY(sim_note_seen(clients));
    *digest = common_digest(clients);
    return FED_OK;
}

static fed_status join_run(sim_clients *clients, const sim_watch *watch, uint64_t *digest,
                           fed_error *err) {
    char(*token)[FEDSERVER_TOKEN] = calloc(clients->options->clients, sizeof *token);
    FED_REQUIRE(token != NULL, FED_ENOMEM);
    const fed_status status = join(clients, watch, token, digest, err);
    free(token);
    return status;
}

fed_status sim_https_run(sim_clients *clients, const sim_watch *watch, uint64_t *digest,
                         fed_error *err) {
    processes p = {.coordinator = {.pid = -1}};
    if (sim_is_foreign(clients->options)) {
        return join_run(clients, watch, digest, err);
    }
    fed_status status = serve(&p, clients, watch, digest, err);
    fed_error ignored = {0};
    sim_helper_stop(&p.helper, &p.coordinator);
    clients->log->helper_cpu_s = p.helper.cpu_s;
    (void)!sim_coordinator_stop(&p.coordinator, SIGTERM, &ignored); /* the process may have ended */
    sim_coordinator_clean(&p.coordinator);
    return status;
}
