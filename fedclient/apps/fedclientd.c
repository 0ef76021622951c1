/* fedclientd: a device as a program. It enrols, then trains or evaluates whatever the coordinator
 * asks for, on labelled samples. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed/version.h"
#include "fedclient/fedclient.h"
#include "fedtrain/data.h"

static const char usage[] =
    "Usage: fedclientd --server URL --ca FILE --state DIR --data DIR [options]\n"
    "\n"
    "Takes part in training: keeps its data, sends compressed updates.\n"
    "\n"
    "  --server URL     the coordinator, such as https://127.0.0.1:8443\n"
    "  --ca FILE        the coordinator's ca.pem\n"
    "  --state DIR      where this device keeps its key, model and residual; made if missing\n"
    "  --data DIR       where its samples are\n"
    "  --dataset NAME   what they are: mnist, fashion-mnist, cifar10, cifar100, csv,\n"
    "                   csv:label=COLUMN, ptb, shakespeare, words or chars, under their usual\n"
    "                   file names, packed (.gz) or not (mnist)\n"
    "  --token T        enrol with this one-time token, if not enrolled yet\n"
    "  --shard K/N      train on part K (from 0) of N of the training set; default 0/1\n"
    "  --split SPEC     how it is cut: iid (default), classes:k=2 (or two-class),\n"
    "                   dirichlet:alpha=0.5\n"
    "  --evaluate       do not train: measure each new model on the test set\n"
    "  --until-finished end when the task is finished\n"
    "  --hold SECONDS   let the coordinator keep an answer back so long, until there is work;\n"
    "                   default 25\n"
    "  --reference      train with the slow reference implementation\n"
    "  --verbose        log more\n"
    "  --version, --help\n"
    "\n"
    "Ends with 0 when finished or stopped by SIGINT or SIGTERM, 1 on a failure that needs a "
    "person,\n"
    "2 on wrong usage. Started again with the same --state, it goes on where it was.\n";

enum { STATUS_FAILED = 1, STATUS_USAGE = 2 };
enum { EVALUATE_BATCH = 250, EVALUATE_TEXT_BATCH = 10, CA_LIMIT = 65536 };

typedef struct settings {
    const char *server, *ca, *state, *data, *dataset, *token;
    uint32_t shard, shards, hold_ms;
    fedtrain_split split;
    fedtrain_backend backend;
    bool evaluate, until_finished;
    fed_log log;
} settings;

/** What training needs beside the library; kept from round to round while the task is the same. */
typedef struct workshop {
    const settings *settings;
    const fedclient_platform *platform; /* the optimizer's state lies beside the library's */
    fedtrain_data data;                 /* the training part, or the one to evaluate on */
    uint32_t round, again;              /* the last one trained in, and how often before */
    uint64_t task;                      /* that the rest belongs to; 0: none yet */
    fed_arch arch;
    fedtrain_net *net;
    size_t net_batch; /* samples that it can take at a time */
    fedtrain_share share;
    fed_optimizer optimizer;
    float *memory; /* the optimizer's state: head_floats, then its values */
    size_t memory_count;
} workshop;

static atomic_int stop; /* lock-free, so a signal handler may set it */

static void on_signal(int number) {
    (void)number;
    stop = 1;
}

/* --- Training --- */

static const char optimizer_key[] = "optimizer";

static void workshop_clear(workshop *w) {
    fedtrain_net_free(w->net);
    fedtrain_share_free(&w->share);
    fed_arch_free(&w->arch);
    free(w->memory);
    *w = (workshop){.settings = w->settings, .platform = w->platform, .data = w->data};
}

/** The stored value is the task's number, then the state. That of another task is of no use. */
static fed_status optimizer_load(workshop *w, uint64_t task, fed_error *err) {
    uint8_t *data = NULL;
    size_t len = 0, size = w->memory_count * sizeof *w->memory;
    fed_status status = w->platform->get(w->platform->user, optimizer_key, &data, &len, err);
    if (status == FED_ENOTFOUND) {
        return FED_OK;
    }
    FED_TRY(status);
    fed_reader r;
    fed_reader_init(&r, data, len);
    if (fed_read_u64(&r) == task && fed_reader_left(&r) == size) {
        memcpy(w->memory, data + r.pos, size);
    }
    free(data);
    return FED_OK;
}

static fed_status optimizer_save(const workshop *w, fed_error *err) {
    if (w->memory_count == 0 || w->optimizer.stateless) {
        return FED_OK;
    }
    fed_writer out;
    fed_writer_growing(&out);
    fed_write_u64(&out, w->task);
    fed_write_bytes(&out, w->memory, w->memory_count * sizeof *w->memory);
    fed_status status = out.status;
    if (status == FED_OK) {
        status = w->platform->put(w->platform->user, optimizer_key, out.data, out.len, err);
    }
    fed_writer_free(&out);
    return status;
}

static fed_status take_share(workshop *w, const fed_task *task, fed_error *err) {
    const settings *s = w->settings;
    fedtrain_partition all;
    FED_TRY(fedtrain_data_split(&w->data, s->split, s->shards, task->seed, &all, err));
    fed_status status = fedtrain_share_take(&w->data, &all, s->shard, &w->share, err);
    fedtrain_partition_free(&all);
    return status;
}

/** The optimizer as the task has it by now, which goes on with what it remembers. */
static fed_status fit_optimizer(workshop *w, const fed_task *task, fed_error *err) {
    FED_TRY(fed_optimizer_parse(task->optimizer, task->learning_rate, &w->optimizer, err));
    size_t count = fedtrain_optimizer_state_size(&w->optimizer, w->arch.trained);
    if (w->memory != NULL && count == w->memory_count) {
        return FED_OK;
    }
    free(w->memory);
    w->memory_count = count;
    w->memory = calloc(count + 1, sizeof *w->memory);
    FED_REQUIRE(w->memory != NULL, FED_ENOMEM);
    return optimizer_load(w, task->id, err);
}

/** A language model's scores alone take 1.4 MB a sample. */
static size_t evaluate_batch(const workshop *w) {
    return w->data.is_text ? EVALUATE_TEXT_BATCH : EVALUATE_BATCH;
}

/** A net for the task's batches, which may be larger by now. */
static fed_status fit_net(workshop *w, const fed_task *task, fed_error *err) {
    const settings *s = w->settings;
    size_t batch = s->evaluate ? evaluate_batch(w) : task->batch;
    if (w->net != NULL && batch <= w->net_batch) {
        return FED_OK;
    }
    fedtrain_net_free(w->net);
    w->net = NULL;
    w->net_batch = batch;
    fed_status status = fedtrain_net_new(&w->arch, batch, s->backend, &w->net);
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status, "can't make room for the net \"%.200s\"", task->model);
}

static fed_status begin_task(workshop *w, const fed_task *task, fed_error *err) {
    workshop_clear(w);
    FED_TRY(fed_arch_parse(task->model, &w->arch, err));
    if (!w->settings->evaluate) {
        FED_TRY(take_share(w, task, err));
    }
    w->task = task->id;
    return FED_OK;
}

/** Get ready for a round. The task's model and data stay the same; all else may change with it. */
static fed_status equip(workshop *w, const fed_task *task, fed_error *err) {
    if (w->task != task->id) {
        FED_TRY(begin_task(w, task, err));
    }
    FED_TRY(fit_net(w, task, err));
    return w->settings->evaluate ? FED_OK : fit_optimizer(w, task, err);
}

static void mask(void *user, const float *sent, size_t count) {
    workshop *w = user;
    (void)count;
    fedtrain_optimizer_mask(&w->optimizer, w->memory, sent, w->arch.trained);
}

static fed_status train(workshop *w, fedclient_round *round, fed_error *err) {
    w->again = round->round == w->round ? w->again + 1 : 0;
    w->round = round->round;
    if (w->optimizer.mask) {
        FED_TRY(fedclient_round_sent(round, mask, w, err));
    }
    fedtrain_job job = {.net = w->net,
                        .optimizer = w->optimizer,
                        .steps = round->task->local_steps,
                        .batch = round->task->batch,
                        .seed = round->task->seed,
                        .client = w->settings->shard,
                        .round = round->round + w->again * FEDTRAIN_AGAIN};
    fedtrain_job_use(&job, &w->data, &w->share);
    FED_TRY(fedtrain_run(&job, round->values, w->memory, &round->loss, err));
    round->samples = (uint32_t)w->share.size;
    return optimizer_save(w, err);
}

static fed_status evaluate(workshop *w, fedclient_round *round, fed_error *err) {
    fedtrain_score score = {0};
    FED_TRY(fedtrain_data_score(w->net, evaluate_batch(w), &w->data, round->values, &score, err));
    round->samples = (uint32_t)score.samples;
    round->correct = (uint32_t)score.correct;
    round->loss = score.loss;
    return FED_OK;
}

/** The library's callback. */
static fed_status work(void *user, fedclient_round *round, fed_error *err) {
    workshop *w = user;
    FED_TRY(equip(w, round->task, err));
    return w->settings->evaluate ? evaluate(w, round, err) : train(w, round, err);
}

/* --- Running --- */

static void log_wait(const settings *s, const fedclient_event *event) {
    static const char *const reasons[] = {[FED_WAIT_NO_TASK] = "no task is scheduled",
                                          [FED_WAIT_FULL] =
                                              "the round has all the devices it wants",
                                          [FED_WAIT_REPORTED] = "this round's update is in",
                                          [FED_WAIT_NO_MODEL] = "every model is measured",
                                          [FED_WAIT_FINISHED] = "the task is finished"};
    fed_logf(&s->log, FED_LOG_DEBUG, "waiting %" PRIu32 " ms: %s", event->wait_ms,
             reasons[event->reason]);
}

/** One line an event. What is refused or tried again, the library has logged with its reason. */
static void log_event(const settings *s, const fedclient_event *event) {
    switch (event->outcome) {
    case FEDCLIENT_WAITED:
        log_wait(s, event);
        break;
    case FEDCLIENT_COUNTED:
        fed_logf(&s->log, FED_LOG_INFO, "round %" PRIu32 ": update counted, training loss %.4f",
                 event->round, (double)event->loss);
        break;
    case FEDCLIENT_EVALUATED:
        fed_logf(&s->log, FED_LOG_INFO,
                 "version %" PRIu32 ": accuracy %.2f %% (%" PRIu32 " of %" PRIu32 "), loss %.4f",
                 event->version, 100.0 * event->correct / event->samples, event->correct,
                 event->samples, (double)event->loss);
        break;
    case FEDCLIENT_FINISHED:
        fed_logf(&s->log, FED_LOG_INFO, "the task is finished; its model is version %" PRIu32,
                 event->version);
        break;
    case FEDCLIENT_REFUSED:
    case FEDCLIENT_RETRY:
        break;
    }
}

/** Sleep, in naps, so that a signal which comes just before one is seen soon. */
static void rest(uint32_t ms) {
    int64_t until = fed_clock_monotonic_ms() + ms;
    while (stop == 0 && fed_clock_monotonic_ms() < until) {
        int64_t left = until - fed_clock_monotonic_ms();
        fed_sleep_ms(left < 200 ? left : 200);
    }
}

static fed_status run(const settings *s, fedclient *client, fed_error *err) {
    while (stop == 0) {
        fedclient_event event;
        fed_status status = fedclient_step(client, &event, err);
        if (status == FED_ECANCELED) {
            break;
        }
        FED_TRY(status);
        log_event(s, &event);
        bool finished = event.outcome == FEDCLIENT_FINISHED ||
                        (event.outcome == FEDCLIENT_WAITED && event.reason == FED_WAIT_FINISHED);
        if (finished && s->until_finished) {
            return FED_OK;
        }
        rest(event.wait_ms);
    }
    fed_logf(&s->log, FED_LOG_INFO, "stopped; what is not sent yet is kept in %s", s->state);
    return FED_OK;
}

/** A coordinator that is there, but has no time, has some later; where there is none, the address
 * may be wrong, and a person should know. */
static fed_status enrol_in_time(const settings *s, fedclient *client, fed_error *err) {
    enum { TRIES = 8, FIRST_MS = 500 };
    fed_status status = fedclient_enrol(client, s->token, err);
    for (uint32_t k = 0; k + 1 < TRIES && stop == 0; k++) {
        if (status != FED_ETIMEOUT && status != FED_EBUSY) {
            break;
        }
        fed_logf(&s->log, FED_LOG_WARN, "enrolling is tried again: %s", err->text);
        rest((uint32_t)FIRST_MS << k);
        status = fedclient_enrol(client, s->token, err);
    }
    return status;
}

static fed_status enrol(const settings *s, fedclient *client, fed_error *err) {
    if (fedclient_enrolled(client)) {
        if (s->token != NULL) {
            fed_logf(&s->log, FED_LOG_INFO, "enrolled already: the token is not used");
        }
        return FED_OK;
    }
    if (s->token == NULL) {
        return fed_fail(err, FED_ESTATE,
                        "%s holds no identity yet: make a token with `fedserver "
                        "token` and give it with --token",
                        s->state);
    }
    return enrol_in_time(s, client, err);
}

static fed_status live(const settings *s, workshop *w, fedclient_platform *platform,
                       fedclient_transport *transport, fed_error *err) {
    const fedclient_options options = {.server = s->server,
                                       .platform = platform,
                                       .transport = transport,
                                       .log = &s->log,
                                       .role = s->evaluate ? FED_ROLE_EVALUATE : FED_ROLE_TRAIN,
                                       .hold_ms = s->hold_ms,
                                       .train = work,
                                       .user = w};
    fedclient *client = NULL;
    FED_TRY(fedclient_open(&options, &client, err));
    fed_status status = enrol(s, client, err);
    if (status == FED_OK) {
        fed_logf(&s->log, FED_LOG_INFO, "device %.16s... at %s", fedclient_device(client),
                 s->server);
        status = run(s, client, err);
    }
    fedclient_close(client);
    return status;
}

static fed_status open_transport(const settings *s, fedclient_transport *transport,
                                 fed_error *err) {
    uint8_t *ca = NULL;
    size_t len = 0;
    FED_TRY(fed_file_read(s->ca, CA_LIMIT, &ca, &len, err));
    fed_error why = {0};
    fed_status status = fedclient_transport_curl_open((const char *)ca, transport, &why);
    free(ca);
    if (status != FED_OK) {
        return fed_fail(err, status, "--ca %.150s: %.200s", s->ca, why.text);
    }
    fedclient_transport_curl_stop(transport, &stop);
    return FED_OK;
}

static fed_status serve(const settings *s, fed_error *err) {
    fedclient_platform platform = {0};
    fedclient_transport transport = {0};
    workshop w = {.settings = s, .platform = &platform};
    fed_status status = fedtrain_data_open(s->dataset, s->data, s->evaluate ? "test" : "train",
                                           "train", &w.data, err);
    if (status == FED_OK) {
        status = fedclient_platform_posix_open(s->state, &platform, err);
    }
    if (status == FED_OK) {
        status = open_transport(s, &transport, err);
    }
    if (status == FED_OK) {
        status = live(s, &w, &platform, &transport, err);
    }
    workshop_clear(&w);
    fedtrain_data_free(&w.data);
    fedclient_transport_curl_close(&transport);
    fedclient_platform_posix_close(&platform);
    return status;
}

/* --- The command line --- */

static bool parse_number(const char *text, uint32_t most, char end_with, uint32_t *value,
                         const char **rest_of_it) {
    char *end = NULL;
    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    if (errno != 0 || end == text || text[0] < '0' || text[0] > '9' || *end != end_with ||
        number > most) {
        return false;
    }
    *value = (uint32_t)number;
    *rest_of_it = end + (end_with != '\0');
    return true;
}

static bool parse_shard(const char *text, settings *s) {
    const char *after = NULL;
    return parse_number(text, UINT32_MAX, '/', &s->shard, &after) &&
           parse_number(after, UINT32_MAX, '\0', &s->shards, &after) && s->shard < s->shards;
}

static bool parse_hold(const char *text, settings *s) {
    const char *after = NULL;
    uint32_t seconds = 0;
    if (!parse_number(text, 3600, '\0', &seconds, &after)) {
        return false;
    }
    s->hold_ms = seconds * 1000;
    return true;
}

static int complain(const char *what, const char *value) {
    fprintf(stderr, "fedclientd: %s%s%s (fedclientd --help tells more)\n", what,
            value != NULL ? " " : "", value != NULL ? value : "");
    return STATUS_USAGE;
}

enum { OPTION_STOPPED = -1 }; /* --help and --version: all is said */

static int take_option(int letter, settings *s) {
    fed_error err = {0};
    switch (letter) {
    case 's':
        s->server = optarg;
        return 0;
    case 'c':
        s->ca = optarg;
        return 0;
    case 'd':
        s->state = optarg;
        return 0;
    case 'm':
        s->data = optarg;
        return 0;
    case 'n':
        s->dataset = optarg;
        return 0;
    case 't':
        s->token = optarg;
        return 0;
    case 'k':
        return parse_shard(optarg, s) ? 0
                                      : complain("--shard wants K/N with K under N, not", optarg);
    case 'p':
        return fedtrain_split_parse(optarg, &s->split, &err) == FED_OK ? 0
                                                                       : complain(err.text, NULL);
    case 'w':
        return parse_hold(optarg, s) ? 0 : complain("--hold wants 0 to 3600 seconds, not", optarg);
    case 'e':
        s->evaluate = true;
        return 0;
    case 'u':
        s->until_finished = true;
        return 0;
    case 'r':
        s->backend = FEDTRAIN_REFERENCE;
        return 0;
    case 'v':
        s->log.level = FED_LOG_DEBUG;
        return 0;
    case 'V':
        puts("fedclientd " FED_VERSION);
        return OPTION_STOPPED;
    case 'h':
        fputs(usage, stdout);
        return OPTION_STOPPED;
    default:
        return complain("unknown option, or one without its value", NULL);
    }
}

static int parse_arguments(int argc, char **argv, settings *s) {
    static const struct option options[] = {
        {"server", required_argument, NULL, 's'},   {"ca", required_argument, NULL, 'c'},
        {"state", required_argument, NULL, 'd'},    {"data", required_argument, NULL, 'm'},
        {"dataset", required_argument, NULL, 'n'},  {"token", required_argument, NULL, 't'},
        {"shard", required_argument, NULL, 'k'},    {"split", required_argument, NULL, 'p'},
        {"hold", required_argument, NULL, 'w'},     {"evaluate", no_argument, NULL, 'e'},
        {"until-finished", no_argument, NULL, 'u'}, {"reference", no_argument, NULL, 'r'},
        {"verbose", no_argument, NULL, 'v'},        {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
    int letter = 0;
    while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
        int result = take_option(letter, s);
        if (result != 0) {
            return result;
        }
    }
    if (optind < argc) {
        return complain("not an option:", argv[optind]);
    }
    if (s->server == NULL || s->ca == NULL || s->state == NULL || s->data == NULL) {
        return complain("--server, --ca, --state and --data are needed", NULL);
    }
    return 0;
}

int main(int argc, char **argv) {
    settings s = {.dataset = "mnist",
                  .shards = 1,
                  .hold_ms = 25000,
                  .log = {.write = fed_log_stderr, .level = FED_LOG_INFO}};
    int result = parse_arguments(argc, argv, &s);
    if (result != 0) {
        return result == OPTION_STOPPED ? 0 : result;
    }
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL); /* the second one ends it at once */
    sigaction(SIGTERM, &action, NULL);
    fed_error err = {0};
    fed_status status = serve(&s, &err);
    if (status != FED_OK && stop == 0) {
        fprintf(stderr, "fedclientd: %s\n",
                err.text[0] != '\0' ? err.text : fed_status_text(status));
        return STATUS_FAILED;
    }
    return 0;
}
