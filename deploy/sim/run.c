/* A run from its options to its log. */
#include "deploy/sim/run.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "deploy/sim/crowd/sim.h"
#include "fed/clock.h"

/** Else each client would find out for itself, after all of them have enrolled. */
static fed_status check_model(const sim_crowd *crowd, const char *model, fed_error *err) {
    fed_arch arch;
    fed_error why = {0};
    FED_TRY(fed_arch_parse(model, &arch, err));
    fed_status status = fedtrain_data_fits(&crowd->train, &arch, &why);
    if (status == FED_OK) {
        status = fedtrain_data_fits(&crowd->test, &arch, &why);
    }
    fed_arch_free(&arch);
    return status == FED_OK ? FED_OK
                            : fed_fail(err, status,
                                       "the task's model does not fit the data: %s; choose another "
                                       "model, or other data",
                                       why.text);
}

/** What the run needs to know of the task beyond what travels; the coordinator has checked the file
 * already. */
static fed_status read_task(sim_crowd *crowd, fed_error *err) {
    const sim_options *o = crowd->options;
    json_t *task = json_load_file(o->task, 0, NULL);
    json_int_t cohort = json_integer_value(json_object_get(task, "cohort"));
    json_t *goal = json_object_get(task, "goal");
    json_int_t wanted = goal != NULL ? json_integer_value(goal) : cohort;
    bool again = json_integer_value(json_object_get(task, "staleness")) > 0; /* in one round */
    crowd->rounds = (uint32_t)json_integer_value(json_object_get(task, "rounds"));
    const fed_status fits =
        check_model(crowd, json_string_value(json_object_get(task, "model")), err);
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

static double cpu_of(int who) {
    struct rusage used;
    getrusage(who, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

double sim_cpu_s(void) {
    return cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN);
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

/** From an open crowd to the log. */
static fed_status run_crowd(sim_crowd *crowd, const sim_watch *watch, fed_error *err) {
    sim_log *log = crowd->log;
    uint64_t digest = 0;
    const int64_t start_ms = fed_clock_monotonic_ms();
    FED_TRY(read_task(crowd, err));
    fed_status status = crowd->options->transport == SIM_HTTPS
                            ? sim_https_run(crowd, watch, &digest, err)
                            : sim_inproc_run(crowd, watch, &digest, err);
    sim_note_end(crowd, digest);
    const bool resumed = crowd->options->resume && crowd->began_wall_ms != 0;
    const int64_t since_ms = resumed ? crowd->began_wall_ms : start_ms;
    log->wall_s = 1e-3 * (double)(fed_clock_monotonic_ms() - since_ms);
    log->total_cpu_s = crowd->earlier_cpu_s + sim_cpu_s();
    FED_TRY(status);
    log->finished = true;
    return check(log, crowd, err);
}

fed_status sim_run(const sim_options *o, const sim_watch *watch, sim_log *log, fed_error *err) {
    sim_crowd crowd = {0};
    FED_TRY(sim_options_check(o, err));
    log->clients = calloc(o->clients, sizeof *log->clients);
    FED_REQUIRE(log->clients != NULL, FED_ENOMEM);
    log->client_count = o->clients;
    const double before_s = sim_cpu_s(); /* a grid's other runs */
    fed_status status = sim_crowd_open(&crowd, o, log, err);
    crowd.earlier_cpu_s = -before_s;
    if (status == FED_OK) {
        status = run_crowd(&crowd, watch, err);
    }
    sim_crowd_close(&crowd);
    return status;
}
