/* fedsim: a real coordinator and hundreds of real HTTPS clients on one machine. */
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "deploy/sim/sim.h"
#include "fed/checkpoint.h"
#include "fed/clock.h"
#include "fed/hash.h"

static const char usage[] =
    "usage: fedsim --task FILE --data DIR [options]\n"
    "\n"
    "Starts a coordinator and trains with many clients, each with its own identity, data and "
    "state,\n"
    "over real mutual-TLS connections.\n"
    "\n"
    "  --task FILE          the training task, as for `fedserver task`\n"
    "  --data DIR           where the samples are\n"
    "  --dataset NAME       what they are: mnist, fashion-mnist, cifar10, cifar100, csv,\n"
    "                       csv:label=COLUMN, ptb, shakespeare, words or chars, under their usual\n"
    "                       file names, packed or not (mnist)\n"
    "  --clients N          how many clients (400)\n"
    "  --split SPEC         iid, classes:k=2 (or two-class), dirichlet:alpha=0.5; of a text iid "
    "or\n"
    "                       group, by its speakers (iid)\n"
    "  --offline F          fraction of the clients that are away in a round (0)\n"
    "  --broken F           fraction of the uploads that break midway or lose their answer (0)\n"
    "  --hostile F          fraction of the clients that add noise to what they learnt (0)\n"
    "  --kill-round N       kill the coordinator in this round and start it again (never)\n"
    "  --seed N             of the split, of absences and breaks (1)\n"
    "  --threads N          trainings at a time (one for each core)\n"
    "  --dir DIR            keep the coordinator's directory here (a temporary one)\n"
    "  --front-port N, --devices-port N   where the coordinator listens (any free port)\n"
    "  --fedserver FILE     the coordinator's program (beside this one)\n"
    "  --result FILE        write the figures as JSON\n";

enum { POLL_MS = 200, END_LIMIT_MS = 60000 };

static atomic_int interrupted;

static void on_signal(int signal) {
    (void)signal;
    interrupted = 1;
}

/* --- The command line --- */

static fed_status parse_number(const char *name, const char *text, double low, double high,
                               double *value, fed_error *err) {
    char *end = NULL;
    double v = strtod(text, &end);
    if (end == text || *end != '\0' || !(v >= low && v <= high)) {
        return fed_fail(err, FED_EINVAL, "--%s %s: must be a number from %g to %g", name, text, low,
                        high);
    }
    *value = v;
    return FED_OK;
}

static const struct option long_options[] = {{"task", required_argument, NULL, 't'},
                                             {"data", required_argument, NULL, 'd'},
                                             {"dataset", required_argument, NULL, 'n'},
                                             {"clients", required_argument, NULL, 'c'},
                                             {"split", required_argument, NULL, 's'},
                                             {"offline", required_argument, NULL, 'o'},
                                             {"broken", required_argument, NULL, 'b'},
                                             {"hostile", required_argument, NULL, 'H'},
                                             {"kill-round", required_argument, NULL, 'k'},
                                             {"seed", required_argument, NULL, 'S'},
                                             {"threads", required_argument, NULL, 'T'},
                                             {"dir", required_argument, NULL, 'D'},
                                             {"front-port", required_argument, NULL, 'f'},
                                             {"devices-port", required_argument, NULL, 'p'},
                                             {"fedserver", required_argument, NULL, 'F'},
                                             {"result", required_argument, NULL, 'r'},
                                             {"help", no_argument, NULL, 'h'},
                                             {NULL, 0, NULL, 0}};

static fed_status take_option(int letter, const char *name, const char *text, sim_options *o,
                              fed_error *err) {
    double v = 0;
    switch (letter) {
    case 't':
        o->task = text;
        return FED_OK;
    case 'd':
        o->data = text;
        return FED_OK;
    case 'n':
        o->dataset = text;
        return FED_OK;
    case 'D':
        o->directory = text;
        return FED_OK;
    case 'F':
        o->fedserver = text;
        return FED_OK;
    case 'r':
        o->result = text;
        return FED_OK;
    case 's':
        return fedtrain_split_parse(text, &o->split, err);
    case 'o':
        return parse_number(name, text, 0, 0.99, &o->offline, err);
    case 'b':
        return parse_number(name, text, 0, 0.9, &o->broken, err);
    case 'H':
        return parse_number(name, text, 0, 1, &o->hostile, err);
    case 'c':
        FED_TRY(parse_number(name, text, 1, 20000, &v, err));
        o->clients = (uint32_t)v;
        return FED_OK;
    case 'k':
        FED_TRY(parse_number(name, text, 1, 1e6, &v, err));
        o->kill_round = (uint32_t)v;
        return FED_OK;
    case 'S':
        FED_TRY(parse_number(name, text, 0, 4294967295.0, &v, err));
        o->seed = (uint64_t)v;
        return FED_OK;
    case 'T':
        FED_TRY(parse_number(name, text, 1, 1024, &v, err));
        o->threads = (uint32_t)v;
        return FED_OK;
    case 'f':
        FED_TRY(parse_number(name, text, 0, 65535, &v, err));
        o->front_port = (uint16_t)v;
        return FED_OK;
    case 'p':
        FED_TRY(parse_number(name, text, 0, 65535, &v, err));
        o->devices_port = (uint16_t)v;
        return FED_OK;
    default:
        return fed_fail(err, FED_EINVAL, "unknown option; `fedsim --help` lists them");
    }
}

static fed_status parse_options(int argc, char **argv, sim_options *o, fed_error *err) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    *o = (sim_options){
        .dataset = "mnist", .clients = 400, .seed = 1, .threads = cores > 0 ? (uint32_t)cores : 1};
    int which = 0;
    for (int letter = 0; (letter = getopt_long(argc, argv, "", long_options, &which)) != -1;) {
        if (letter == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        FED_TRY(take_option(letter, long_options[which].name, optarg, o, err));
    }
    if (optind < argc) {
        return fed_fail(err, FED_EINVAL, "\"%s\" is not an option; `fedsim --help` lists them",
                        argv[optind]);
    }
    if (o->task == NULL || o->data == NULL) {
        return fed_fail(err, FED_EINVAL, "--task and --data are needed; see `fedsim --help`");
    }
    return FED_OK;
}

/** fedserver lies where fedsim lies. */
static void find_fedserver(sim_options *o, const char *self, char *path, size_t cap) {
    if (o->fedserver != NULL) {
        return;
    }
    const char *slash = strrchr(self, '/');
    int folder = slash == NULL ? 0 : (int)(slash - self + 1);
    snprintf(path, cap, "%.*sfedserver", folder, self);
    o->fedserver = path;
}

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

/* --- The run --- */

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
static fed_status look(sim_coordinator *coordinator, sim_crowd *crowd, int64_t *finished_ms,
                       fed_error *err) {
    pthread_mutex_lock(&crowd->mutex);
    size_t running = crowd->running;
    bool over = running == 0 || crowd->failed > 0, kill_due = crowd->kill_due;
    bool finished = crowd->finished;
    pthread_mutex_unlock(&crowd->mutex);
    FED_REQUIRE(!over, FED_ESTATE);
    int64_t now = fed_clock_monotonic_ms();
    *finished_ms = finished && *finished_ms == 0 ? now : *finished_ms;
    if (interrupted) {
        return fed_fail(err, FED_ECANCELED, "interrupted");
    }
    if (*finished_ms != 0 && now - *finished_ms > END_LIMIT_MS) {
        return fed_fail(err, FED_ETIMEOUT, "%zu clients did not end with the task", running);
    }
    return kill_due ? restart(coordinator, crowd, err) : sim_coordinator_alive(coordinator, err);
}

static fed_status watch(sim_coordinator *coordinator, sim_crowd *crowd, uint32_t rounds,
                        fed_error *err) {
    sim_progress progress;
    sim_progress_open(&progress);
    fed_status status = FED_OK;
    for (int64_t finished_ms = 0; status == FED_OK;) {
        sim_crowd_wait(crowd, POLL_MS);
        status = look(coordinator, crowd, &finished_ms, err);
        sim_progress_show(&progress, crowd, rounds);
    }
    sim_progress_close(&progress);
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

static void add_client(sim_result *r, const sim_client *client, double *up, double *down) {
    r->updates += client->counted;
    r->refused += client->refused;
    r->broken += client->broken;
    r->present += client->finished ? 1U : 0U;
    r->identical += client->finished && client->digest == r->digest ? 1U : 0U;
    *up += (double)(client->traffic.sent_bytes - client->enrolment.sent_bytes);
    *down += (double)(client->traffic.received_bytes - client->enrolment.received_bytes);
}

static void collect(const sim_crowd *crowd, sim_result *r) {
    double up = 0, down = 0, n = (double)crowd->options->clients;
    for (uint32_t k = 0; k < crowd->options->clients; k++) {
        add_client(r, &crowd->client[k], &up, &down);
    }
    r->clients = crowd->options->clients;
    r->kills = crowd->coordinator->kills;
    r->rounds = crowd->version;
    r->test_accuracy = crowd->accuracy;
    r->uplink_bytes_per_client = up / n;
    r->downlink_bytes_per_client = down / n;
    double dense = 4.0 * (double)crowd->parameters * crowd->task.local_steps * (double)r->updates;
    r->uplink_compression = up > 0 ? dense / up : 0;
    r->train_cpu_s = 1e-6 * (double)crowd->train_cpu_us;
    r->evaluate_cpu_s = 1e-6 * (double)crowd->evaluate_cpu_us;
}

static fed_status check_result(const sim_result *r, const sim_crowd *crowd, fed_error *err) {
    if (r->identical != r->present) {
        return fed_fail(err, FED_ESTATE,
                        "%zu of %u clients hold another model than the coordinator",
                        r->present - r->identical, r->present);
    }
    if (crowd->evaluated != crowd->version) {
        return fed_fail(err, FED_ESTATE, "the final model (version %u) was not measured",
                        crowd->version);
    }
    return FED_OK;
}

/** From a prepared coordinator to the result. */
static fed_status run_crowd(const sim_options *o, sim_coordinator *coordinator, sim_crowd *crowd,
                            char (*token)[FEDSERVER_TOKEN], sim_result *result, fed_error *err) {
    uint32_t rounds = 0;
    FED_TRY(read_task(o, &rounds, err));
    int64_t start_ms = fed_clock_monotonic_ms();
    FED_TRY(sim_coordinator_start(coordinator, err));
    printf("%u clients; watch the rounds at https://127.0.0.1:%u/ (CA certificate: %s/ca.pem)\n",
           o->clients, coordinator->front_port, coordinator->directory);
    fflush(stdout);
    fed_status status = sim_crowd_start(crowd, token, err);
    if (status == FED_OK) {
        status = watch(coordinator, crowd, rounds, err);
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
    result->wall_s = 1e-3 * (double)(fed_clock_monotonic_ms() - start_ms);
    FED_TRY(coordinator_digest(coordinator, &result->digest, err));
    collect(crowd, result);
    result->total_cpu_s = cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN);
    return check_result(result, crowd, err);
}

static fed_status simulate(const sim_options *o, sim_result *result, fed_error *err) {
    sim_coordinator coordinator = {.pid = -1};
    sim_crowd crowd = {0};
    size_t tokens = o->clients + 1U;
    char(*token)[FEDSERVER_TOKEN] = calloc(tokens, sizeof *token);
    FED_REQUIRE(token != NULL, FED_ENOMEM);
    fed_status status = sim_crowd_open(&crowd, o, &coordinator, err);
    if (status == FED_OK) {
        status = sim_coordinator_prepare(&coordinator, o, tokens, token, err);
    }
    if (status == FED_OK) {
        status = run_crowd(o, &coordinator, &crowd, token, result, err);
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

int main(int argc, char **argv) {
    /* Model-sized blocks come and go with each turn: keep them, instead of giving them back to the
     * system and clearing them anew each time. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGPIPE, SIG_IGN);
    fed_error err = {0};
    sim_options options;
    if (parse_options(argc, argv, &options, &err) != FED_OK) {
        fprintf(stderr, "fedsim: %s\n", err.text);
        return 2;
    }
    char path[1024];
    find_fedserver(&options, argv[0], path, sizeof path);
    sim_result result = {0};
    fed_status status = simulate(&options, &result, &err);
    if (status == FED_OK && options.result != NULL) {
        status = sim_result_write(&result, options.result, &err);
    }
    if (status != FED_OK) {
        fprintf(stderr, "fedsim: %s: %s\n", fed_status_text(status), err.text);
        return 1;
    }
    sim_result_print(&result);
    return 0;
}
