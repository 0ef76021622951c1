/* fedclientd: a device as a program. It enrols, then trains or evaluates models on its own data. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/version.h"
#include "fedclient/apps/fedclientd.h"

/* In two parts, as C promises no longer literal than 4,095 characters. */
static const char usage[] =
    "Usage: fedclientd --server URL --ca FILE --state DIR --data DIR [options]\n"
    "\n"
    "Takes part in training: keeps its data, sends compressed updates.\n"
    "\n"
    "  --server URL     the coordinator, such as https://127.0.0.1:8443; more than once: further\n"
    "                   addresses of the same coordinator, for when one does not answer\n"
    "  --ca FILE        the coordinator's ca.pem\n"
    "  --state DIR      where this device keeps its key, model and residual; made if missing\n"
    "  --data DIR       where its samples are\n"
    "  --dataset NAME   which samples: mnist, fashion-mnist, cifar10, cifar100, csv,\n"
    "                   csv:label=COLUMN, csv:target=COLUMN (numbers to predict, for a model\n"
    "                   with mse), ptb, shakespeare, words or chars, under their usual file\n"
    "                   names, packed (.gz) or not (mnist)\n"
    "  --normalise      give each channel, or column, mean 0 and deviation 1, by this device's\n"
    "                   own training shard (with --evaluate: by its whole training set). Each\n"
    "                   device uses its own means and deviations, and tells them nobody. If they\n"
    "                   differ, equal samples of two devices look different to the model. Use\n"
    "                   --normalise on all devices or on none\n"
    "  --token T        enrol with this one-time token, if not enrolled yet, or if the "
    "coordinator\n"
    "                   refuses this device; other users of this machine can see it, so better:\n"
    "  --token-file FILE  the same, with the token in the file's first line\n"
    "  --name NAME      what the coordinator's operator sees this device called; default: the\n"
    "                   host's name\n"
    "  --shard K/N      train on part K (from 0) of N of the training set; default 0/1\n"
    "  --split SPEC     how the training set is cut into shards: iid (default),\n"
    "                   classes:k=2 (or two-class), dirichlet:alpha=0.5,\n"
    "                   quantity:alpha=0.5\n"
    "  --personal FILE  write this device's own model there, as safetensors, each time that a\n"
    "                   task with personal_steps or private_layers has made a new one\n"
    "  --evaluate       do not train: measure each new model on the test set\n"
    "  --when LIST      train only while all of these hold, with commas between them: charging,\n"
    "                   unmetered (NetworkManager says so), idle (nobody uses the device, says\n"
    "                   systemd-logind), file:PATH (the path exists: let a script decide)\n"
    "  --until-finished end when the coordinator says that all tasks are finished\n"
    "  --hold SECONDS   let the coordinator keep an answer back for at most this time, until\n"
    "                   there is work; default 25; at most 2 with several --server\n"
    "  --slots N        take part in up to N tasks at once, 1 to 8; default 1. Each needs\n"
    "                   as much room under --state as one task does\n"
    "  --memory MB      decline a task whose model, or whose batch, takes more memory than this;\n"
    "                   default: half of this machine's\n"
    "  --most-epsilon E train only for tasks that promise an epsilon, of at most E\n"
    "  --helper FILE    train only for private tasks whose sums this helper opens; FILE has its\n"
    "                   key, as helper.pem. Get it from the helper's party\n"
    "  --least-devices N  train only for private tasks whose rounds have at least N devices\n"
    "  --private        a device that trains for nobody else: needs --helper, and lets\n"
    "                   --least-devices be 20 where it is not given\n";
static const char more_usage[] =
    "  --transport NAME what carries its requests: curl or mbedtls; default curl, where built\n"
    "  --downloads-ca FILE  trust this CA certificate of caches that tasks name for downloads;\n"
    "                   default: the system's CAs (only with the transport curl)\n"
    "  --no-caches      ask no cache: all downloads come from the coordinator\n"
    "  --backend NAME   what computes: fast (default); bfloat16, which multiplies in bfloat16;\n"
    "                   or the slow reference\n"
    "  --device NAME    compute on a GPU: gpu (the first that can be used), opencl:0, cuda:0;\n"
    "                   fedworker devices lists them\n"
    "  --verbose        log more\n"
    "  --log text|json  text (default), or one JSON object a line\n"
    "  --version, --help\n"
    "\n"
    "Ends with 0 when finished or stopped by SIGINT or SIGTERM, 1 on a failure that needs a "
    "person,\n"
    "2 on wrong usage. Started again with the same --state, it goes on where it was.\n";

enum { STATUS_FAILED = 1, STATUS_USAGE = 2 };

static const option_row own_rows[] = {{"personal", OPTION_TEXT,
                                       offsetof(fedclientd_settings, personal),
                                       .commands = FEDCLIENTD_COMMAND}};

static int complain(const char *what) {
    fprintf(stderr, "fedclientd: %s (fedclientd --help tells more)\n", what);
    return STATUS_USAGE;
}

int main(int argc, char **argv) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    fedclientd_settings s = {.name = host,
                             .software = "fedclientd/" FED_VERSION,
                             .work = {.dataset = "mnist", .shards = 1},
                             .hold_ms = 25000,
                             .log = {.write = fed_log_stderr}};
    fed_error err = {0};
    (void)signal(SIGPIPE, SIG_IGN); /* the program that reads the output may end first */
    if (option_is_given("--help", argc, argv)) {
        fputs(usage, stdout);
        fputs(more_usage, stdout);
        return 0;
    }
    if (option_is_given("--version", argc, argv)) {
        printf("fedclientd %s (%s)\n", FED_VERSION, fed_build_id());
        return 0;
    }
    if (fedclientd_read_options(own_rows, 1, argc, argv, &s, &err) != FED_OK) {
        return complain(err.text);
    }
    s.stop = fedclientd_catch_signals();
    fed_status status = fedclientd_serve(&s, &err);
    if (status != FED_OK && *s.stop == 0) {
        fedclientd_say_why(&s.log, "fedclientd",
                           err.text[0] != '\0' ? err.text : fed_status_text(status));
        return STATUS_FAILED;
    }
    return 0;
}
