/* A run over HTTPS: a coordinator process, a thread for each client, and an eye on both. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "deploy/sim/crowd/coordinator.h"
#include "deploy/sim/real/lives.h"
#include "fed/clock.h"

enum { POLL_MS = 200, END_LIMIT_MS = 60000 };

static fed_status restart(sim_coordinator *coordinator, sim_crowd *crowd, fed_error *err) {
    fprintf(stderr, "round %u: killing the coordinator, then starting it again\n",
            crowd->options->kill_round);
    FED_TRY(sim_coordinator_stop(coordinator, SIGKILL, err));
    FED_TRY(sim_coordinator_start(coordinator, err));
    coordinator->kills++;
    pthread_mutex_lock(&crowd->mutex);
    crowd->kill_due = false;
    crowd->kill_done = true;
    sim_lives_hand_out(crowd);
    pthread_mutex_unlock(&crowd->mutex);
    return FED_OK;
}

/** One look at the run. FED_ESTATE: it is over; anything else but FED_OK: it must end. */
static fed_status look(sim_coordinator *coordinator, sim_crowd *crowd, const sim_watch *watch,
                       int64_t *finished_ms, fed_error *err) {
    pthread_mutex_lock(&crowd->mutex);
    size_t running = crowd->running;
    bool over = running == 0 || crowd->failed > 0, kill_due = crowd->kill_due;
    bool finished = crowd->finished;
    pthread_mutex_unlock(&crowd->mutex);
    FED_REQUIRE(!over, FED_ESTATE);
    int64_t now = fed_clock_monotonic_ms();
    *finished_ms = finished && *finished_ms == 0 ? now : *finished_ms;
    if (*watch->stop != 0) {
        return fed_fail(err, FED_ECANCELED, "stopped in round %u", crowd->round);
    }
    if (*finished_ms != 0 && now - *finished_ms > END_LIMIT_MS) {
        return fed_fail(err, FED_ETIMEOUT, "%zu clients did not end with the task", running);
    }
    return kill_due ? restart(coordinator, crowd, err) : sim_coordinator_alive(coordinator, err);
}

static fed_status attend(sim_coordinator *coordinator, sim_crowd *crowd, const sim_watch *watch,
                         fed_error *err) {
    fed_status status = FED_OK;
    for (int64_t finished_ms = 0; status == FED_OK;) {
        sim_lives_wait(crowd, POLL_MS);
        status = look(coordinator, crowd, watch, &finished_ms, err);
        sim_crowd_show(crowd, watch, 0);
    }
    return status == FED_ESTATE ? FED_OK : status;
}

/** From the first client's start to the coordinator's end. */
static fed_status live(sim_coordinator *coordinator, sim_crowd *crowd, const sim_watch *watch,
                       char (*token)[FEDSERVER_TOKEN], fed_error *err) {
    char server[64];
    snprintf(server, sizeof server, "https://127.0.0.1:%u", coordinator->front_port);
    crowd->server = server;
    crowd->ca = coordinator->ca.text;
    if (watch->listening != NULL) {
        watch->listening(watch->user, coordinator->front_port, coordinator->directory);
    }
    fed_status status = sim_lives_start(crowd, token, err);
    if (status == FED_OK) {
        status = attend(coordinator, crowd, watch, err);
    }
    sim_lives_stop(crowd);
    fed_error own = {0};
    fed_status stopped = sim_coordinator_stop(coordinator, SIGTERM, &own);
    sim_lives_end(crowd);
    FED_TRY(status);
    FED_TRY(sim_crowd_failure(crowd, err));
    return stopped == FED_OK ? FED_OK : fed_fail(err, stopped, "%s", own.text);
}

/** The coordinator's process has ended: what is in its database goes into the log. */
static fed_status read_back(const sim_coordinator *coordinator, sim_crowd *crowd, fed_error *err) {
    fedserver *server = NULL;
    FED_TRY(fedserver_open(coordinator->directory, NULL, &server, err));
    fed_status status = sim_note_rounds(crowd, server, UINT32_MAX, err);
    fedserver_close(server);
    return status;
}

static fed_status serve(sim_coordinator *coordinator, sim_crowd *crowd, const sim_watch *watch,
                        uint64_t *digest, fed_error *err) {
    const size_t tokens = crowd->client_count;
    char(*token)[FEDSERVER_TOKEN] = calloc(tokens, sizeof *token);
    FED_REQUIRE(token != NULL, FED_ENOMEM);
    fed_status status = sim_coordinator_prepare(coordinator, crowd->options, tokens, token, err);
    if (status == FED_OK) {
        status = sim_coordinator_start(coordinator, err);
    }
    if (status == FED_OK) {
        status = live(coordinator, crowd, watch, token, err);
    }
    free(token);
    if (status == FED_OK || status == FED_ECANCELED) {
        fed_error own = {0};
        fed_status read = read_back(coordinator, crowd, &own);
        status = read == FED_OK || status != FED_OK ? status : fed_fail(err, read, "%s", own.text);
    }
    FED_TRY(status);
    crowd->log->kills = coordinator->kills;
    return sim_coordinator_result(coordinator, crowd->options->model, digest, err);
}

fed_status sim_https_run(sim_crowd *crowd, const sim_watch *watch, uint64_t *digest,
                         fed_error *err) {
    sim_coordinator coordinator = {.pid = -1};
    fed_status status = serve(&coordinator, crowd, watch, digest, err);
    fed_error ignored = {0};
    (void)!sim_coordinator_stop(&coordinator, SIGTERM,
                                &ignored); /* where it was not got that far */
    sim_coordinator_clean(&coordinator);
    return status;
}
