/* Runs a simulation, from its options to its log. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/run.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/sim/clients/clients.h"
#include "deploy/sim/clients/run_log.h"
#include "deploy/sim/https/https_run.h"
#include "deploy/sim/inproc/inproc.h"
#include "deploy/sim/inproc/saved_run.h"
#include "deploy/sim/scenario/helper_key.h"
#include "deploy/sim/scenario/seldom.h"
#include "fed/clock.h"
#include "fedtrain/backend.h"

/** Check that the model fits data and backend. Otherwise the clients would find out only after all
 * have enrolled. *positions: how many symbols of a text make a sample. */
static fed_status check_model(const sim_clients *clients, const char *model, size_t *positions,
                              fed_error *err) {
    fed_arch arch;
    fed_error why = {0};
    if (sim_has_trainers(clients->options)) {
        return FED_OK;
    }
    FED_TRY(fed_arch_load(model, &arch, err)); /* reads "@FILE", too */
    fed_status status = fedtrain_data_fits(&clients->train, &arch, &why);
    if (status == FED_OK) {
        status = fedtrain_data_fits(&clients->test, &arch, &why);
    }
    if (status != FED_OK) {
        status = fed_fail(err, status,
                          "the task's model does not fit the data: %s; choose another model, or "
                          "other data",
                          why.text);
    } else {
        status = fedtrain_backend_fits(sim_options_backend(clients->options), &arch, err);
    }
    *positions = arch.positions;
    fed_arch_free(&arch);
    return status;
}

/** The task names a helper if the run has one, and then this one. Otherwise no round would end. */
static fed_status check_helper(const sim_options *o, const char *named, fed_error *err) {
    char hex[SIM_HELPER_HEX] = "";
    if (o->helper) {
        FED_TRY(sim_helper_hex(o->seed, hex, err));
    }
    if (strcmp(named != NULL ? named : "", hex) == 0) {
        return FED_OK;
    }
    return fed_fail(err, FED_EINVAL,
                    "%s: its \"helper\" is not the one of this run; leave it out of the task, and "
                    "let the scenario say helper=1",
                    o->task);
}

/** Hold back what models are measured on, if that is asked. */
static fed_status hold_back(sim_clients *clients, const json_t *task, fed_error *err) {
    const float fraction = (float)json_number_value(json_object_get(task, "holdout"));
    if (!sim_measures_clients(clients->options)) {
        return FED_OK;
    }
    if (fraction == 0) {
        return fed_fail(err, FED_EINVAL,
                        "evaluate=clients measures on what the clients hold back, and they hold "
                        "nothing back: give holdout, such as holdout=0.2");
    }
    if (clients->unmeasured) {
        return fed_fail(err, FED_EINVAL,
                        "with private_layers each client measures its own model on what it holds "
                        "back: leave evaluate=clients out");
    }
    const json_int_t seed = json_integer_value(json_object_get(task, "seed"));
    return sim_clients_hold(clients, (double)fraction, (uint64_t)seed, err);
}

/** Return how many models lie from one that is measured to the next. updates: of a round. */
static uint32_t measured_every(const sim_clients *clients, const json_t *task, json_int_t updates,
                               size_t positions) {
    const json_int_t steps = json_integer_value(json_object_get(task, "local_steps"));
    const json_int_t batch = json_integer_value(json_object_get(task, "batch"));
    const bool own = sim_measures_clients(clients->options);
    const double share = own ? json_number_value(json_object_get(task, "holdout")) : 1;
    const fedtrain_data *test = own ? &clients->train : &clients->test;
    const size_t samples = test->is_text ? test->text.count / positions : test->set.count;
    const sim_amounts amounts = {.rounds = clients->rounds,
                                 .trained = (double)updates * (double)steps * (double)batch,
                                 .tested = share * (double)samples};
    const uint32_t asked = clients->options->evaluate_every;
    return asked > 0 ? asked : sim_seldom(&amounts);
}

/** Read what the run needs of the task file. The coordinator checks the file itself. */
static fed_status read_task(sim_clients *clients, fed_error *err) {
    const sim_options *o = clients->options;
    if (sim_is_foreign(o)) {
        clients->measured_every = 1;
        clients->unmeasured = true;
        return FED_OK; /* each client checks the coordinator's task against its data */
    }
    json_t *task = json_load_file(o->task, 0, NULL);
    json_int_t cohort = json_integer_value(json_object_get(task, "cohort"));
    json_t *goal = json_object_get(task, "goal");
    json_int_t wanted = goal != NULL ? json_integer_value(goal) : cohort;
    bool again = json_integer_value(json_object_get(task, "staleness")) >
                 0; /* a client may send several updates in a round */
    clients->rounds = (uint32_t)json_integer_value(json_object_get(task, "rounds"));
    clients->unmeasured = json_object_get(task, "private_layers") != NULL;
    const char *initial = json_string_value(json_object_get(task, "initial"));
    if (clients->unmeasured && initial != NULL && initial[0] == '/') { /* as fedsim writes it */
        clients->initial = strdup(initial);
    }
    size_t positions = 1;
    fed_status fits =
        check_model(clients, json_string_value(json_object_get(task, "model")), &positions, err);
    clients->measured_every = measured_every(clients, task, wanted, positions);
    if (fits == FED_OK) {
        fits = check_helper(o, json_string_value(json_object_get(task, "helper")), err);
    }
    if (fits == FED_OK) {
        fits = hold_back(clients, task, err);
    }
    json_decref(task);
    FED_TRY(fits);
    uint32_t here = o->clients - (uint32_t)(o->offline * (double)o->clients);
    if (wanted > here && !again) {
        return fed_fail(err, FED_EINVAL,
                        "%s: \"goal\" is %" JSON_INTEGER_FORMAT ", but only %u of %u clients are "
                        "there in a round; set it to %u or less",
                        o->task, wanted, here, o->clients, here);
    }
    return FED_OK;
}

static fed_status check(const sim_log *log, const sim_clients *clients, fed_error *err) {
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
    if (!clients->unmeasured && clients->kept.evaluated != clients->kept.version) {
        return fed_fail(err, FED_ESTATE, "the final model (version %u) was not measured",
                        clients->kept.version);
    }
    return FED_OK;
}

static fed_status run_clients(sim_clients *clients, const sim_watch *watch, fed_error *err) {
    sim_log *log = clients->log;
    uint64_t digest = 0;
    const int64_t start_ms = fed_clock_monotonic_ms();
    FED_TRY(read_task(clients, err));
    fed_status status = clients->options->transport == SIM_HTTPS
                            ? sim_https_run(clients, watch, &digest, err)
                            : sim_inproc_run(clients, watch, &digest, err);
    sim_note_end(clients, digest);
    const bool resumed = clients->options->resume && clients->began_wall_ms != 0;
    const int64_t since_ms = resumed ? clients->began_wall_ms : start_ms;
    log->wall_s = 1e-3 * (double)(fed_clock_monotonic_ms() - since_ms);
    log->total_cpu_s = clients->kept.cpu_s + sim_cpu_s() - clients->before_cpu_s;
    if (sim_has_trainers(clients->options)) { /* theirs is not this process's CPU time */
        log->total_cpu_s += log->train_cpu_s + log->evaluate_cpu_s;
    }
    FED_TRY(status);
    log->finished = true;
    return check(log, clients, err);
}

static fed_status open_clients(sim_clients *clients, const sim_options *o, sim_log *log,
                               fed_error *err) {
    FED_TRY(sim_clients_load(clients, o, log, err));
    if (o->state != NULL) {
        FED_TRY(o->resume ? sim_saved_find(o, err) : sim_saved_begin(o, err));
    }
    return sim_clients_open(clients, err);
}

fed_status sim_run(const sim_options *o, const sim_watch *watch, sim_log *log, fed_error *err) {
    sim_clients clients = {0};
    FED_TRY(sim_options_check(o, err));
    log->clients = calloc(o->clients, sizeof *log->clients);
    FED_REQUIRE(log->clients != NULL, FED_ENOMEM);
    log->client_count = o->clients;
    const double before_s = sim_cpu_s(); /* CPU time of the grid's earlier runs */
    fed_status status = open_clients(&clients, o, log, err);
    clients.before_cpu_s = before_s;
    if (status == FED_OK) {
        status = run_clients(&clients, watch, err);
    }
    sim_clients_close(&clients);
    return status;
}
