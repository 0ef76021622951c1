/* A command of the program fedserver: its name, its options, and its function. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_COMMANDS_COMMAND_H
#define FEDSERVER_COMMANDS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "fed/error.h"
#include "fedserver/operator.h"

/*
 * To add a command: define `const command command_NAME` in a file of this folder, and add the line
 * COMMAND(NAME) to commands.def. To add an option: a member of `arguments`, a row of the table in
 * command_options.c, and its name in `options` of each command that takes it.
 */

enum { COMMAND_OK = 0, COMMAND_FAILED = 1, COMMAND_USAGE = 2 };

enum { COMMAND_LIST = 32, COMMAND_OPERANDS = 4 };

typedef struct command_list {
    const char *items[COMMAND_LIST + 1]; /* NULL after the last value */
    size_t count;
} command_list;

typedef struct command command;

/** The command line's values. Options that are not given have the defaults of command_options.c. */
typedef struct arguments {
    const command *command;
    const char *dir;
    command_list hosts, add_hosts;
    const char *bind, *proxies, *store, *cluster;
    long front_port; /* -1: not given */
    long devices_port;
    bool quiet, no_front, keep;
    const char *log;
    long count, hours, requests, connections, parent;
    long front_socket, ready; /* descriptors; 0: none */
    double device_days, task_memory;
    const char *role, *tag, *name;
    const char *withdraw, *since;
    bool json, force, database;
    const char *page; /* see command_find_page */
    bool bearer, revoke, spare;
    double days;
    const char *upstream, *upstream_ca, *upstream_token, *upstream_token_file;
    long edge_cohort, edge_goal, edge_minimum;
    long least;
    const char *roster, *helper, *make_spare;
    long task;
    long lost;                                  /* -1: not given */
    const char *operands[COMMAND_OPERANDS + 1]; /* NULL after the last one */
} arguments;

/** A command's function, called with an open coordinator. */
typedef fed_status (*command_work)(fedserver *server, const arguments *args, fed_error *err);

struct command {
    const char *name;
    /* called between fedserver_open and fedserver_close; NULL: `run` is called instead */
    command_work work;
    int (*run)(const arguments *args); /* returns COMMAND_OK, COMMAND_FAILED or COMMAND_USAGE */
    /* options besides --dir and --help, such as "bind front-port"; NULL: none */
    const char *options;
    const char *operands; /* after the options, such as "ID [POSITION]"; NULL: nothing */
    const char *brief;
    const char *help; /* printed for --help, and after an error in the command line */
};

/** Read a command's words; argv[0] is the command's name. Returns -1 to go on, or the exit status
 * after the help or an error has been printed. */
int command_parse(const command *cmd, int argc, char **argv, arguments *args);

/** Print what is wrong with the command line, and the usage. Returns COMMAND_USAGE. */
int command_usage(const arguments *args, const char *what, const char *value);

/** Print why the command failed. Returns COMMAND_FAILED. */
int command_fail(const arguments *args, const fed_error *err);

/** Open the coordinator, call `work`, and close it. Prints an error. Returns the exit status. */
int command_with(const arguments *args, command_work work);

enum { COMMAND_FRONT_PORT = 8443 }; /* if --front-port is not given */

/** Read the value of --page: WHO, "read", or WHO,read. *reads: nobody acts through the page.
 * False: the value is not valid. */
bool command_find_page(const char *name, fedserver_page *page, bool *reads);

/** Print one more object of a JSON list, on a line of its own, and release it. *count: how many
 * objects were printed before; it grows by 1. */
fed_status command_json_item(size_t *count, json_t *item, fed_error *err);
/** Print one JSON object on a line, and release it. NULL: FED_ENOMEM. */
fed_status command_json(json_t *object, fed_error *err);
/** End a list of `count` lines or, with --json, of objects. none: what to print on stderr if there
 * are no lines; NULL: nothing. */
void command_list_end(const arguments *args, size_t count, const char *none);

/** A time in milliseconds as JSON; null for 0. */
json_t *command_json_time(int64_t ms);

/** Write a time as "2026-01-31T12:00:00Z"; 0 gives "". */
void command_time(int64_t ms, char text[32]);

#define COMMAND(name) extern const command command_##name;
#include "fedserver/commands/commands.def"
#undef COMMAND

#endif
