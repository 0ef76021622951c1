/* fedclientd: a device as a program. It enrols, then trains or evaluates whatever the coordinator
 * asks for, on labelled samples. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/version.h"
#include "fedclient/apps/fedclientd.h"
#include "fedtrain/backend.h"

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
    "                   csv:label=COLUMN, csv:target=COLUMN (numbers to predict, for a model\n"
    "                   with mse), ptb, shakespeare, words or chars, under their usual file\n"
    "                   names, packed (.gz) or not (mnist)\n"
    "  --normalise      give each channel, or column, mean 0 and deviation 1, by this device's\n"
    "                   own training shard (with --evaluate: by its whole training set). Each\n"
    "                   device goes by its own figures, which it tells nobody: where devices\n"
    "                   differ, one value means different things to the model. Use it on all\n"
    "                   devices or on none\n"
    "  --token T        enrol with this one-time token, if not enrolled yet; other users of this\n"
    "                   machine can see it, so better:\n"
    "  --token-file FILE  the same, with the token in the file's first line\n"
    "  --name NAME      what the coordinator's operator sees this device called; default: the\n"
    "                   host's name\n"
    "  --shard K/N      train on part K (from 0) of N of the training set; default 0/1\n"
    "  --split SPEC     how it is cut: iid (default), classes:k=2 (or two-class),\n"
    "                   dirichlet:alpha=0.5\n"
    "  --evaluate       do not train: measure each new model on the test set\n"
    "  --when LIST      train only while all of these hold, with commas between them: charging,\n"
    "                   unmetered (NetworkManager says so), idle (nobody uses the device, says\n"
    "                   systemd-logind), file:PATH (the path exists: let a script decide)\n"
    "  --until-finished end when the coordinator says that all tasks are finished\n"
    "  --hold SECONDS   let the coordinator keep an answer back so long, until there is work;\n"
    "                   default 25\n"
    "  --transport NAME what carries its requests: curl or mbedtls; default curl, where built\n"
    "  --backend NAME   what computes: fast (default), or the slow reference\n"
    "  --verbose        log more\n"
    "  --version, --help\n"
    "\n"
    "Ends with 0 when finished or stopped by SIGINT or SIGTERM, 1 on a failure that needs a "
    "person,\n"
    "2 on wrong usage. Started again with the same --state, it goes on where it was.\n";

enum { STATUS_FAILED = 1, STATUS_USAGE = 2 };
static atomic_int stop; /* lock-free, so a signal handler may set it */

static void on_signal(int number) {
    (void)number;
    stop = 1;
}

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

static bool parse_shard(const char *text, fedclientd_settings *s) {
    const char *after = NULL;
    return parse_number(text, UINT32_MAX, '/', &s->work.shard, &after) &&
           parse_number(after, UINT32_MAX, '\0', &s->work.shards, &after) &&
           s->work.shard < s->work.shards;
}

static bool parse_hold(const char *text, fedclientd_settings *s) {
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

static int take_transport(fedclientd_settings *s) {
    for (size_t k = 0; fedclient_transport_name(k) != NULL; k++) {
        if (strcmp(optarg, fedclient_transport_name(k)) == 0) {
            s->transport = optarg;
            return 0;
        }
    }
    return complain("this build has no --transport", optarg);
}

enum { OPTION_STOPPED = -1 }; /* --help and --version: nothing else to do */

/** The destination of an option whose value is any text; NULL: another option. */
static const char **text_of(int letter, fedclientd_settings *s) {
    switch (letter) {
    case 's':
        return &s->server;
    case 'c':
        return &s->ca;
    case 'd':
        return &s->state;
    case 'm':
        return &s->work.data;
    case 'n':
        return &s->work.dataset;
    case 't':
        return &s->token;
    case 'f':
        return &s->token_file;
    case 'N':
        return &s->name;
    default:
        return NULL;
    }
}

static int take_option(int letter, fedclientd_settings *s) {
    fed_error err = {0};
    const char **text = text_of(letter, s);
    if (text != NULL) {
        *text = optarg;
        return 0;
    }
    switch (letter) {
    case 'x':
        return take_transport(s);
    case 'W':
        return fedclient_conditions_parse(optarg, &s->when, &err) == FED_OK
                   ? 0
                   : complain("--when:", err.text);
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
    case 'z':
        s->work.normalise = true;
        return 0;
    case 'r':
        s->work.backend = optarg;
        return fedtrain_backend_fits(optarg, NULL, &err) == FED_OK ? 0 : complain(err.text, NULL);
    case 'v':
        s->log.level = FED_LOG_DEBUG;
        return 0;
    case 'V':
        printf("fedclientd %s (%s)\n", FED_VERSION, fed_build_id());
        return OPTION_STOPPED;
    case 'h':
        fputs(usage, stdout);
        return OPTION_STOPPED;
    default:
        return complain("unknown option, or one without its value", NULL);
    }
}

static int parse_arguments(int argc, char **argv, fedclientd_settings *s) {
    static const struct option options[] = {{"server", required_argument, NULL, 's'},
                                            {"ca", required_argument, NULL, 'c'},
                                            {"state", required_argument, NULL, 'd'},
                                            {"data", required_argument, NULL, 'm'},
                                            {"dataset", required_argument, NULL, 'n'},
                                            {"token", required_argument, NULL, 't'},
                                            {"token-file", required_argument, NULL, 'f'},
                                            {"name", required_argument, NULL, 'N'},
                                            {"shard", required_argument, NULL, 'k'},
                                            {"split", required_argument, NULL, 'p'},
                                            {"when", required_argument, NULL, 'W'},
                                            {"hold", required_argument, NULL, 'w'},
                                            {"transport", required_argument, NULL, 'x'},
                                            {"evaluate", no_argument, NULL, 'e'},
                                            {"until-finished", no_argument, NULL, 'u'},
                                            {"normalise", no_argument, NULL, 'z'},
                                            {"backend", required_argument, NULL, 'r'},
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
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    fedclientd_settings s = {.name = host,
                             .stop = &stop,
                             .work = {.dataset = "mnist", .shards = 1},
                             .hold_ms = 25000,
                             .log = {.write = fed_log_stderr, .level = FED_LOG_INFO}};
    int result = parse_arguments(argc, argv, &s);
    if (result != 0) {
        return result == OPTION_STOPPED ? 0 : result;
    }
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL); /* a second signal ends the program at once */
    sigaction(SIGTERM, &action, NULL);
    fed_error err = {0};
    fed_status status = fedclientd_serve(&s, &err);
    if (status != FED_OK && stop == 0) {
        fprintf(stderr, "fedclientd: %s\n",
                err.text[0] != '\0' ? err.text : fed_status_text(status));
        return STATUS_FAILED;
    }
    return 0;
}
