/* A run from its options to its log: the coordinator, the crowd, and an eye on both. */
#include "deploy/sim/run.h"

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "deploy/sim/sim.h"
#include "fed/checkpoint.h"
#include "fed/clock.h"
#include "fed/hash.h"

enum { POLL_MS = 200, END_LIMIT_MS = 60000 };

/** What the run needs to know of the task beyond what travels; the coordinator has checked the file
 * already. */
static fed_status read_task(const sim_options *o, uint32_t *rounds, fed_error *err) {
    json_t *task = json_load_file(o->task, 0, NULL);
    json_int_t cohort = json_integer_value(json_object_get(task, "cohort"));
    json_t *goal = json_object_get(task, "goal");
    json_int_t wanted = goal != NULL ? json_integer_value(goal) : cohort;
    bool again = json_integer_value(json_object_get(task, "staleness")) > 0; /* in one round */
    *rounds = (uint32_t)json_integer_value(json_object_get(task, "rounds"));
    json_decref(task);
    uint32_t here = o->clients - (uint32_t)(o->offline * (double)o->clients);
    if (wanted > here && !again) {
        return fed_fail(err, FED_EINVAL,
                        "%s: \"goal\" is %" JSON_INTEGER_FORMAT ", but only %u of %u clients are "
                        "there in a round; set it to %u or less",
                        o->task, wanted, here, o->clients, here);
    }
    return FED_OK;
}

static fed_status restart(sim_coordinator *coordinator, sim_crowd *crowd, fed_error *err) {
    fprintf(stderr, "round %u: killing the coordinator, then starting it again\n",
            crowd->options->kill_round);
    FED_TRY(sim_coordinator_stop(coordinator, SIGKILL, err));
    FED_TRY(sim_coordinator_start(coordinator, err));
    coordinator->kills++;
    pthread_mutex_lock(&crowd->mutex);
    crowd->kill_due = false;
    crowd->kill_done = true;
    sim_place_hand_out(crowd);
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

static void show(const sim_watch *watch, sim_crowd *crowd, uint32_t rounds, int64_t start_ms) {
    const double wall_s = 1e-3 * (double)(fed_clock_monotonic_ms() - start_ms);
    pthread_mutex_lock(&crowd->mutex);
    const sim_progress progress = {.round = crowd->round,
                                   .rounds = rounds,
                                   .reported = crowd->reported,
                                   .evaluated = crowd->evaluated,
                                   .accuracy = crowd->accuracy,
                                   .virtual_s = wall_s,
                                   .wall_s = wall_s};
    pthread_mutex_unlock(&crowd->mutex);
    watch->progress(watch->user, &progress);
}

static fed_status attend(sim_coordinator *coordinator, sim_crowd *crowd, const sim_watch *watch,
                         uint32_t rounds, fed_error *err) {
    const int64_t start_ms = fed_clock_monotonic_ms();
    fed_status status = FED_OK;
    for (int64_t finished_ms = 0; status == FED_OK;) {
        sim_crowd_wait(crowd, POLL_MS);
        status = look(coordinator, crowd, watch, &finished_ms, err);
        show(watch, crowd, rounds, start_ms);
    }
    return status == FED_ESTATE ? FED_OK : status;
}

static fed_status first_failure(const sim_crowd *crowd, fed_error *err) {
    for (size_t k = 0; k < crowd->client_count; k++) {
        const sim_client *client = &crowd->client[k];
        if (client->error.status != FED_OK) {
            return fed_fail(err, client->error.status, "client %u gave up (%s): %s", client->k,
                            fed_status_text(client->error.status), client->error.text);
        }
    }
    return FED_OK;
}

/** The digest of the model that the coordinator keeps, read back from its database. */
static fed_status coordinator_digest(const sim_coordinator *coordinator, uint64_t *digest,
                                     fed_error *err) {
    char path[600];
    snprintf(path, sizeof path, "%s/final.safetensors", coordinator->directory);
    fedserver *server = NULL;
    FED_TRY(fedserver_open(coordinator->directory, NULL, &server, err));
    fed_status status = fedserver_model_export(server, 0, path, err);
    fedserver_close(server);
    FED_TRY(status);
    fed_model model = {0};
    FED_TRY(fed_checkpoint_load(path, &model, err));
    *digest = fed_digest(model.values, model.layout.size);
    fed_model_free(&model);
    return FED_OK;
}

static double cpu_s(int who) {
    struct rusage used;
    getrusage(who, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/** What the clients have to say of the run, into the log. */
static void collect(const sim_crowd *crowd, sim_log *log) {
    for (size_t k = 0; k < log->client_count; k++) {
        const sim_client *client = &crowd->client[k];
        sim_account *account = &log->clients[k];
        *account = (sim_account){
            .up_bytes = client->traffic.sent_bytes - client->enrolment.sent_bytes,
            .down_bytes = client->traffic.received_bytes - client->enrolment.received_bytes,
            .counted = client->counted,
            .refused = client->refused,
            .broken = client->broken,
            .samples = (uint32_t)client->share.size,
            .busy_s = 1e-6 * (double)client->train_cpu_us,
            .present = client->finished,
            .identical = client->finished && client->digest == log->digest};
        log->steps += (uint64_t)client->counted * crowd->task.local_steps;
        log->train_cpu_s += account->busy_s;
    }
    log->kills = crowd->coordinator->kills;
    log->parameters = crowd->parameters;
    log->evaluate_cpu_s = 1e-6 * (double)crowd->evaluate_cpu_us;
}

static fed_status check(const sim_log *log, const sim_crowd *crowd, fed_error *err) {
    size_t present = 0, identical = 0;
    for (size_t k = 0; k < log->client_count; k++) {
        present += log->clients[k].present;
        identical += log->clients[k].identical;
    }
    if (identical != present) {
        return fed_fail(err, FED_ESTATE,
                        "%zu of %zu clients hold another model than the coordinator",
                        present - identical, present);
    }
    if (crowd->evaluated != crowd->version) {
        return fed_fail(err, FED_ESTATE, "the final model (version %u) was not measured",
                        crowd->version);
    }
    return FED_OK;
}

/** From a prepared coordinator to the log. */
static fed_status run_crowd(const sim_options *o, const sim_watch *watch,
                            sim_coordinator *coordinator, sim_crowd *crowd,
                            char (*token)[FEDSERVER_TOKEN], sim_log *log, fed_error *err) {
    uint32_t rounds = 0;
    FED_TRY(read_task(o, &rounds, err));
    int64_t start_ms = fed_clock_monotonic_ms();
    FED_TRY(sim_coordinator_start(coordinator, err));
    if (watch->listening != NULL) {
        watch->listening(watch->user, coordinator->front_port, coordinator->directory);
    }
    fed_status status = sim_crowd_start(crowd, token, err);
    if (status == FED_OK) {
        status = attend(coordinator, crowd, watch, rounds, err);
    }
    sim_crowd_stop(crowd);
    fed_error own = {0};
    fed_status stopped = sim_coordinator_stop(coordinator, SIGTERM, &own);
    sim_crowd_join(crowd);
    FED_TRY(status);
    FED_TRY(first_failure(crowd, err));
    if (stopped != FED_OK) {
        return fed_fail(err, stopped, "%s", own.text);
    }
    log->wall_s = 1e-3 * (double)(fed_clock_monotonic_ms() - start_ms);
    FED_TRY(coordinator_digest(coordinator, &log->digest, err));
    collect(crowd, log);
    log->total_cpu_s = cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN);
    log->finished = true;
    return check(log, crowd, err);
}

fed_status sim_run(const sim_options *o, const sim_watch *watch, sim_log *log, fed_error *err) {
    sim_coordinator coordinator = {.pid = -1};
    sim_crowd crowd = {0};
    size_t tokens = o->clients + 1U;
    char(*token)[FEDSERVER_TOKEN] = calloc(tokens, sizeof *token);
    log->clients = calloc(o->clients, sizeof *log->clients);
    log->client_count = log->clients != NULL ? o->clients : 0;
    fed_status status = token != NULL && log->clients != NULL ? FED_OK : FED_ENOMEM;
    if (status == FED_OK) {
        status = sim_crowd_open(&crowd, o, &coordinator, log, err);
    }
    if (status == FED_OK) {
        status = sim_coordinator_prepare(&coordinator, o, tokens, token, err);
    }
    if (status == FED_OK) {
        status = run_crowd(o, watch, &coordinator, &crowd, token, log, err);
    }
    fed_error ignored = {0};
    if (sim_coordinator_stop(&coordinator, SIGTERM, &ignored) != FED_OK && status == FED_OK) {
        status = fed_fail(err, ignored.status, "%s", ignored.text);
    }
    sim_crowd_close(&crowd);
    sim_coordinator_clean(&coordinator);
    free(token);
    return status;
}
