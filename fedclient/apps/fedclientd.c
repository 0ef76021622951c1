/* fedclientd: a device as a program. It enrols, then trains or evaluates whatever the coordinator
 * asks for, on labelled samples. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed/version.h"
#include "fedclient/apps/workshop.h"
#include "fedclient/fedclient.h"

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
    "  --transport NAME what carries its requests: curl or mbedtls; default curl, where built\n"
    "  --reference      train with the slow reference implementation\n"
    "  --verbose        log more\n"
    "  --version, --help\n"
    "\n"
    "Ends with 0 when finished or stopped by SIGINT or SIGTERM, 1 on a failure that needs a "
    "person,\n"
    "2 on wrong usage. Started again with the same --state, it goes on where it was.\n";

enum { STATUS_FAILED = 1, STATUS_USAGE = 2 };
enum { CA_LIMIT = 65536 };

typedef struct settings {
    const char *server, *ca, *state, *token;
    const char *transport; /* NULL: the first that this build has */
    workshop_settings work;
    uint32_t hold_ms;
    bool until_finished;
    fed_log log;
} settings;

static atomic_int stop; /* lock-free, so a signal handler may set it */

static void on_signal(int number) {
    (void)number;
    stop = 1;
}

static bool stopped(void *user) {
    (void)user;
    return stop != 0;
}

/* --- Running --- */

static void log_wait(const settings *s, const fedclient_event *event) {
    static const char *const reasons[] = {[FED_WAIT_NO_TASK] = "no task is scheduled",
                                          [FED_WAIT_FULL] =
                                              "the round has all the devices it wants",
                                          [FED_WAIT_REPORTED] = "this round's update is in",
                                          [FED_WAIT_NO_MODEL] = "every model is measured",
                                          [FED_WAIT_FINISHED] = "the task is finished",
                                          [FED_WAIT_DECLINED] = "another task is awaited"};
    fed_logf(&s->log, FED_LOG_DEBUG, "waiting %" PRIu32 " ms: %s", event->wait_ms,
             reasons[event->reason]);
}

/** One line an event. The others the library has logged with their reasons. */
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
    case FEDCLIENT_DECLINED:
    case FEDCLIENT_LATE:
    case FEDCLIENT_PAUSED:
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
                                       .role =
                                           s->work.evaluate ? FED_ROLE_EVALUATE : FED_ROLE_TRAIN,
                                       .hold_ms = s->hold_ms,
                                       .train = workshop_work,
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
    const fedclient_transport_options options = {.ca_pem = (const char *)ca, .stopped = stopped};
    fed_status status = fedclient_transport_open(s->transport, &options, transport, &why);
    free(ca);
    if (status == FED_EFORMAT) {
        return fed_fail(err, status, "--ca %.150s: %.200s", s->ca, why.text);
    }
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", why.text);
}

static fed_status serve(const settings *s, fed_error *err) {
    fedclient_platform platform = {0};
    fedclient_transport transport = {0};
    workshop *w = NULL;
    fed_status status = workshop_open(&s->work, &platform, &w, err);
    if (status == FED_OK) {
        status = fedclient_platform_posix_open(s->state, &platform, err);
    }
    if (status == FED_OK) {
        status = open_transport(s, &transport, err);
    }
    if (status == FED_OK) {
        status = live(s, w, &platform, &transport, err);
    }
    workshop_close(w);
    fedclient_transport_close(&transport);
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
    return parse_number(text, UINT32_MAX, '/', &s->work.shard, &after) &&
           parse_number(after, UINT32_MAX, '\0', &s->work.shards, &after) &&
           s->work.shard < s->work.shards;
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

static int take_transport(settings *s) {
    for (size_t k = 0; fedclient_transport_name(k) != NULL; k++) {
        if (strcmp(optarg, fedclient_transport_name(k)) == 0) {
            s->transport = optarg;
            return 0;
        }
    }
    return complain("this build has no --transport", optarg);
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
        s->work.data = optarg;
        return 0;
    case 'n':
        s->work.dataset = optarg;
        return 0;
    case 't':
        s->token = optarg;
        return 0;
    case 'x':
        return take_transport(s);
    case 'k':
        return parse_shard(optarg, s) ? 0
                                      : complain("--shard wants K/N with K under N, not", optarg);
    case 'p':
        return fedtrain_split_parse(optarg, &s->work.split, &err) == FED_OK
                   ? 0
                   : complain(err.text, NULL);
    case 'w':
        return parse_hold(optarg, s) ? 0 : complain("--hold wants 0 to 3600 seconds, not", optarg);
    case 'e':
        s->work.evaluate = true;
        return 0;
    case 'u':
        s->until_finished = true;
        return 0;
    case 'r':
        s->work.backend = FEDTRAIN_REFERENCE;
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
    static const struct option options[] = {{"server", required_argument, NULL, 's'},
                                            {"ca", required_argument, NULL, 'c'},
                                            {"state", required_argument, NULL, 'd'},
                                            {"data", required_argument, NULL, 'm'},
                                            {"dataset", required_argument, NULL, 'n'},
                                            {"token", required_argument, NULL, 't'},
                                            {"shard", required_argument, NULL, 'k'},
                                            {"split", required_argument, NULL, 'p'},
                                            {"hold", required_argument, NULL, 'w'},
                                            {"transport", required_argument, NULL, 'x'},
                                            {"evaluate", no_argument, NULL, 'e'},
                                            {"until-finished", no_argument, NULL, 'u'},
                                            {"reference", no_argument, NULL, 'r'},
                                            {"verbose", no_argument, NULL, 'v'},
                                            {"version", no_argument, NULL, 'V'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
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
    if (s->server == NULL || s->ca == NULL || s->state == NULL || s->work.data == NULL) {
        return complain("--server, --ca, --state and --data are needed", NULL);
    }
    return 0;
}

int main(int argc, char **argv) {
    settings s = {.work = {.dataset = "mnist", .shards = 1},
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
