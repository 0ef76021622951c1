/* fedclientd: a device as a program. It enrols, then trains or evaluates whatever the coordinator
 * asks for, on labelled samples. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/version.h"
#include "fedclient/apps/fedclientd.h"
#include "fedclient/apps/option_table.h"
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

static int complain(const char *what) {
    fprintf(stderr, "fedclientd: %s (fedclientd --help tells more)\n", what);
    return STATUS_USAGE;
}

static fed_status take_shard(const char *value, void *values, fed_error *err) {
    workshop_settings *work = &((fedclientd_settings *)values)->work;
    const char *slash = option_number(value, '/', 0, UINT32_MAX, &work->shard);
    if (slash == NULL || option_number(slash + 1, '\0', 0, UINT32_MAX, &work->shards) == NULL ||
        work->shard >= work->shards) {
        return fed_fail(err, FED_EINVAL, "--shard wants K/N with K under N, not %s", value);
    }
    return FED_OK;
}

static fed_status take_split(const char *value, void *values, fed_error *err) {
    return fedtrain_split_parse(value, &((fedclientd_settings *)values)->work.split, err);
}

static fed_status take_when(const char *value, void *values, fed_error *err) {
    fed_error why = {0};
    const fed_status status =
        fedclient_conditions_parse(value, &((fedclientd_settings *)values)->when, &why);
    return status == FED_OK ? FED_OK : fed_fail(err, status, "--when: %s", why.text);
}

static fed_status take_hold(const char *value, void *values, fed_error *err) {
    uint32_t seconds = 0;
    if (option_number(value, '\0', 0, 3600, &seconds) == NULL) {
        return fed_fail(err, FED_EINVAL, "--hold wants 0 to 3600 seconds, not %s", value);
    }
    ((fedclientd_settings *)values)->hold_ms = seconds * 1000;
    return FED_OK;
}

static fed_status take_transport(const char *value, void *values, fed_error *err) {
    for (size_t k = 0; fedclient_transport_name(k) != NULL; k++) {
        if (strcmp(value, fedclient_transport_name(k)) == 0) {
            ((fedclientd_settings *)values)->transport = value;
            return FED_OK;
        }
    }
    return fed_fail(err, FED_EINVAL, "this build has no --transport %s", value);
}

static fed_status take_backend(const char *value, void *values, fed_error *err) {
    ((fedclientd_settings *)values)->work.backend = value;
    return fedtrain_backend_fits(value, NULL, err);
}

static fed_status parse_arguments(int argc, char **argv, fedclientd_settings *s, fed_error *err) {
    enum { ANY = 1 }; /* the program is one command */
#define AT(member) offsetof(fedclientd_settings, member)
    static const option_row rows[] = {
        {"server", OPTION_TEXT, AT(server), .commands = ANY},
        {"ca", OPTION_TEXT, AT(ca), .commands = ANY},
        {"state", OPTION_TEXT, AT(state), .commands = ANY},
        {"data", OPTION_TEXT, AT(work.data), .commands = ANY},
        {"dataset", OPTION_TEXT, AT(work.dataset), .commands = ANY},
        {"token", OPTION_TEXT, AT(token), .commands = ANY},
        {"token-file", OPTION_TEXT, AT(token_file), .commands = ANY},
        {"name", OPTION_TEXT, AT(name), .commands = ANY},
        {"shard", OPTION_OTHER, .commands = ANY, .take = take_shard},
        {"split", OPTION_OTHER, .commands = ANY, .take = take_split},
        {"when", OPTION_OTHER, .commands = ANY, .take = take_when},
        {"hold", OPTION_OTHER, .commands = ANY, .take = take_hold},
        {"transport", OPTION_OTHER, .commands = ANY, .take = take_transport},
        {"backend", OPTION_OTHER, .commands = ANY, .take = take_backend},
        {"evaluate", OPTION_FLAG, AT(work.evaluate), .commands = ANY},
        {"until-finished", OPTION_FLAG, AT(until_finished), .commands = ANY},
        {"normalise", OPTION_FLAG, AT(work.normalise), .commands = ANY},
        {"verbose", OPTION_FLAG, AT(verbose), .commands = ANY},
    };
#undef AT
    int words = 0;
    FED_TRY(option_table_read(rows, sizeof rows / sizeof rows[0], ANY, argc, argv, s, &words, err));
    if (words < argc) {
        return fed_fail(err, FED_EINVAL, "not an option: %.200s", argv[words]);
    }
    if (s->server == NULL || s->ca == NULL || s->state == NULL || s->work.data == NULL) {
        return fed_fail(err, FED_EINVAL, "--server, --ca, --state and --data are needed");
    }
    s->log.level = s->verbose ? FED_LOG_DEBUG : FED_LOG_INFO;
    return FED_OK;
}

static bool is_given(const char *option, int argc, char **argv) {
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], option) == 0) {
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    fedclientd_settings s = {.name = host,
                             .stop = &stop,
                             .work = {.dataset = "mnist", .shards = 1},
                             .hold_ms = 25000,
                             .log = {.write = fed_log_stderr}};
    fed_error err = {0};
    if (is_given("--help", argc, argv)) {
        fputs(usage, stdout);
        return 0;
    }
    if (is_given("--version", argc, argv)) {
        printf("fedclientd %s (%s)\n", FED_VERSION, fed_build_id());
        return 0;
    }
    if (parse_arguments(argc, argv, &s, &err) != FED_OK) {
        return complain(err.text);
    }
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL); /* a second signal ends the program at once */
    sigaction(SIGTERM, &action, NULL);
    fed_status status = fedclientd_serve(&s, &err);
    if (status != FED_OK && stop == 0) {
        fprintf(stderr, "fedclientd: %s\n",
                err.text[0] != '\0' ? err.text : fed_status_text(status));
        return STATUS_FAILED;
    }
    return 0;
}
