/* fedsim: a coordinator and many clients on one machine, from a scenario to a report. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deploy/sim/commands.h"
#include "deploy/sim/report/results.h"
#include "fed/command_line.h"

static const char usage[] = "usage: fedsim COMMAND ...\n"
                            "       fedsim --help | --version\n"
                            "  run     run a federation as a scenario says\n"
                            "  report  compare runs, as a table and as plots\n"
                            "  keys    list the keys of a scenario\n"
                            "fedsim COMMAND --help says more.\n";

typedef struct help {
    const char *name, *text;
} help;

static const help helps[] = {
    {"run",
     "usage: fedsim run [SCENARIO] [key=value ...] [--out DIR] [--resume]\n"
     "\n"
     "Run a federation as a file of lines `key = value` says, and as the keys given here say.\n"
     "\n"
     "  key=value   a key of the scenario; `fedsim keys` lists them. Quote 'a | b' and 1..5: they\n"
     "              make a grid of runs, each in a directory of its own.\n"
     "              'strategy,learning_rate = fedavg,.05 | fedadam,.01' varies two together\n"
     "  --out DIR   where results go; without it results/ and the scenario's name\n"
     "  --resume    go on with what was stopped in DIR, and skip what is finished there. A run\n"
     "              over https or with trainers can't go on\n"
     "  --help      say this\n"
     "\n"
     "Ctrl-C stops a run with its results so far; a second one stops at once. Exit status: 0 "
     "done,\n"
     "1 failed, 2 a wrong scenario or option, 130 stopped.\n"},
    {"report",
     "usage: fedsim report DIR... [--out FILE.html]\n"
     "\n"
     "Print a table of the runs in these directories, and of the runs of grids.\n"
     "\n"
     "  --out FILE  draw their plots over each other, too. For a single DIR, a run or a grid,\n"
     "              DIR/report.html is written again\n"
     "  --help      say this\n"},
    {"keys",
     "usage: fedsim keys\n"
     "\n"
     "List the keys of a scenario: name, default, meaning. \"-\": no default. (needed): the key\n"
     "must be given.\n"},
};

/** Return the help of a command; NULL: there is none of that name. */
static const char *help_of(const char *name) {
    for (size_t k = 0; k < sizeof helps / sizeof helps[0]; k++) {
        if (strcmp(helps[k].name, name) == 0) {
            return helps[k].text;
        }
    }
    return NULL;
}

static atomic_int interrupted;

/** The first signal ends the run cleanly, the second one at once. */
static void on_signal(int number) {
    static const char words[] =
        "\nfedsim: stopping after the steps under way; press Ctrl-C again to stop at once\n";
    interrupted = 1;
    signal(number, SIG_DFL);
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0) {
        return; /* standard error is closed */
    }
}

static int list_keys(void) {
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        const sim_key *key = &sim_keys[id];
        const char *preset = key->preset == NULL ? "(needed)" : key->preset;
        printf("%-15s %-11s %s\n", key->name, preset[0] != '\0' ? preset : "-", key->meaning);
    }
    return 0;
}

static bool complain(const char *what) {
    fprintf(stderr, "fedsim: %s\n\n%s", what, usage);
    return false;
}

static bool read_words(int argc, char **argv, sim_command *c) {
    for (int k = 2; k < argc; k++) {
        if (strcmp(argv[k], "--out") == 0) {
            if (k + 1 == argc) {
                return complain("a value is missing after --out");
            }
            c->out = argv[++k];
        } else if (strcmp(argv[k], "--help") == 0 || strcmp(argv[k], "-h") == 0) {
            c->help = true;
        } else if (strcmp(argv[k], "--resume") == 0) {
            c->resume = true;
        } else if (argv[k][0] == '-') {
            fed_error err = {0};
            fed_fail(&err, FED_EINVAL, "unknown option %s", argv[k]);
            return complain(err.text);
        } else {
            c->words[c->word_count++] = argv[k];
        }
    }
    return true;
}

static int end_with(fed_status status, const fed_error *err) {
    if (status == FED_OK) {
        return 0;
    }
    fprintf(stderr, "fedsim: %s\n", err->text[0] != '\0' ? err->text : fed_status_text(status));
    return status == FED_EINVAL ? 2 : status == FED_ECANCELED ? 130 : 1;
}

static int run_command(const char *name, const sim_command *command) {
    fed_error err = {0};
    if (command->help) {
        const char *own = help_of(name);
        fputs(own != NULL ? own : usage, stdout);
        return 0;
    }
    if (strcmp(name, "run") == 0) {
        return end_with(sim_command_run(command, &err), &err);
    }
    if (strcmp(name, "report") == 0) {
        if (command->word_count == 0) {
            complain("report lacks the DIR of a run");
            return 2;
        }
        return end_with(sim_command_report(command, &err), &err);
    }
    if (strcmp(name, "keys") == 0) {
        return list_keys();
    }
    if (strcmp(name, "--version") == 0) {
        char version[128];
        sim_version_text(version, sizeof version);
        puts(version);
        return 0;
    }
    if (strstr(name, "help") != NULL) {
        fputs(usage, stdout);
        return 0;
    }
    static const char *const names[] = {"run", "report", "keys", NULL};
    fed_command_refuse(name, names, &err);
    complain(err.text);
    return 2;
}

int main(int argc, char **argv) {
    /* Each step takes and frees blocks as large as the model. Let malloc keep them, because the
     * system would clear new memory each time. */
    mallopt(M_MMAP_THRESHOLD, 1 << 25);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_ARENA_MAX, 2);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGPIPE, SIG_IGN);
    sim_command command = {.stop = &interrupted};
    command.words = calloc((size_t)argc + 1, sizeof *command.words);
    if (command.words == NULL) {
        return 1;
    }
    const bool understood = argc < 2 || read_words(argc, argv, &command);
    const int code = understood ? run_command(argc < 2 ? "" : argv[1], &command) : 2;
    free(command.words);
    return code;
}
