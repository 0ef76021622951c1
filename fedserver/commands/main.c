/* The program fedserver: finds the command that is asked for, and runs it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "fed/command_line.h"
#include "fed/version.h"
#include "fedserver/commands/command.h"

static const command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "fedserver/commands/commands.def"
#undef COMMAND
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int run(const command *cmd, int argc, char **argv) {
    arguments args;
    const int code = command_parse(cmd, argc, argv, &args);
    if (code >= 0) {
        return code;
    }
    return cmd->work != NULL ? command_with(&args, cmd->work) : cmd->run(&args);
}

/* A core file could hold the server's key, or the CA's. */
static void write_no_core(void) {
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){.rlim_cur = 0, .rlim_max = 0});
}

static void complain(const char *word) {
    const char *names[COMMANDS + 1] = {NULL};
    fed_error err = {0};
    for (size_t k = 0; k < COMMANDS; k++) {
        names[k] = commands[k]->name;
    }
    fed_command_refuse(word, names, &err);
    fprintf(stderr, "fedserver: %s\n", err.text);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    write_no_core();
    (void)signal(SIGPIPE, SIG_IGN); /* a program that reads the output may end first */
    for (size_t k = 0; k < COMMANDS; k++) {
        if (strcmp(commands[k]->name, name) == 0) {
            return run(commands[k], argc - 1, argv + 1);
        }
    }
    if (strcmp(name, "--version") == 0) {
        printf("fedserver %s (%s)\n", FED_VERSION, fed_build_id());
        return COMMAND_OK;
    }
    const bool asked = strcmp(name, "--help") == 0 || strcmp(name, "help") == 0;
    FILE *to = asked ? stdout : stderr;
    if (!asked) {
        complain(name);
    }
    fputs("usage: fedserver COMMAND --dir DIR ...\n", to);
    for (size_t k = 0; k < COMMANDS; k++) {
        fprintf(to, "  %-9s %s\n", commands[k]->name, commands[k]->brief);
    }
    fputs("fedserver COMMAND --help says more.\n", to);
    return asked ? COMMAND_OK : COMMAND_USAGE;
}
