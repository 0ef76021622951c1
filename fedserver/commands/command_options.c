/* Reads the command line: a table of all options, and the parser that uses it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/command_line.h"
#include "fed/params.h"
#include "fedserver/commands/command.h"

typedef enum kind { FLAG, TEXT, LIST, WHOLE, REAL } kind;

/* All options but --help. command.options tells which of them a command takes besides --dir. */
static const struct row {
    const char *name;
    kind kind;
    size_t offset;
    double low, high;
} rows[] = {
#define AT(member) offsetof(arguments, member)
    {"dir", TEXT, AT(dir), 0, 0},
    {"host", LIST, AT(hosts), 0, 0},
    {"keep", FLAG, AT(keep), 0, 0},
    {"store", TEXT, AT(store), 0, 0},
    {"bind", TEXT, AT(bind), 0, 0},
    {"front-port", WHOLE, AT(front_port), 0, UINT16_MAX},
    {"devices-port", WHOLE, AT(devices_port), 0, UINT16_MAX},
    {"device-days", REAL, AT(device_days), 1e-5, 36500},
    {"task-memory", REAL, AT(task_memory), 1e-3, 1e6},
    {"requests", WHOLE, AT(requests), 1, 1e6},
    {"connections", WHOLE, AT(connections), 1, 1e6},
    {"add-host", LIST, AT(add_hosts), 0, 0},
    {"proxy-protocol", TEXT, AT(proxies), 0, 0},
    {"cluster", TEXT, AT(cluster), 0, 0},
    {"no-front", FLAG, AT(no_front), 0, 0},
    {"front-socket", WHOLE, AT(front_socket), 3, INT_MAX},
    {"parent", WHOLE, AT(parent), 1, INT_MAX},
    {"ready", WHOLE, AT(ready), 3, INT_MAX},
    {"quiet", FLAG, AT(quiet), 0, 0},
    {"log", TEXT, AT(log), 0, 0},
    {"json", FLAG, AT(json), 0, 0},
    {"force", FLAG, AT(force), 0, 0},
    {"database", FLAG, AT(database), 0, 0},
    {"count", WHOLE, AT(count), 1, 1e6},
    {"hours", WHOLE, AT(hours), 1, 1e6},
    {"role", TEXT, AT(role), 0, 0},
    {"tag", TEXT, AT(tag), 0, 0},
    {"page", TEXT, AT(page), 0, 0},
    {"bearer", FLAG, AT(bearer), 0, 0},
    {"days", REAL, AT(days), 1e-5, 36500},
    {"revoke", FLAG, AT(revoke), 0, 0},
    {"name", TEXT, AT(name), 0, 0},
    {"withdraw", TEXT, AT(withdraw), 0, 0},
    {"since", TEXT, AT(since), 0, 0},
    {"upstream", TEXT, AT(upstream), 0, 0},
    {"upstream-ca", TEXT, AT(upstream_ca), 0, 0},
    {"upstream-token", TEXT, AT(upstream_token), 0, 0},
    {"upstream-token-file", TEXT, AT(upstream_token_file), 0, 0},
    {"least", WHOLE, AT(least), 2, 1e6},
    {"roster", TEXT, AT(roster), 0, 0},
    {"helper", TEXT, AT(helper), 0, 0},
    {"make-spare", TEXT, AT(make_spare), 0, 0},
    {"spare", FLAG, AT(spare), 0, 0},
    {"edge-cohort", WHOLE, AT(edge_cohort), 1, 1e6},
    {"edge-goal", WHOLE, AT(edge_goal), 1, 1e6},
    {"edge-minimum", WHOLE, AT(edge_minimum), 1, 1e6},
    /* earlier names of the options edge-*; release 0.3.0 drops them */
    {"site-cohort", WHOLE, AT(edge_cohort), 1, 1e6},
    {"site-goal", WHOLE, AT(edge_goal), 1, 1e6},
    {"site-minimum", WHOLE, AT(edge_minimum), 1, 1e6},
    {"task", WHOLE, AT(task), 1, (double)(INT64_MAX / 2)},
    {"lost", WHOLE, AT(lost), 0, 1e6},
#undef AT
};
enum { ROWS = sizeof rows / sizeof rows[0], HELP = ROWS };

static const arguments defaults = {.least = 20,
                                   .bind = "127.0.0.1",
                                   .front_port = -1,
                                   .devices_port = 8444,
                                   .requests = 100,
                                   .connections = 16,
                                   .device_days = 730,
                                   .count = 1,
                                   .hours = 24,
                                   .role = "device",
                                   .page = "loopback",
                                   .log = "text",
                                   .days = 365,
                                   .lost = -1};

int command_usage(const arguments *args, const char *what, const char *value) {
    fprintf(stderr, "fedserver %s: %s%s%s\n%s", args->command->name, what,
            value[0] != '\0' ? ": " : "", value, args->command->help);
    return COMMAND_USAGE;
}

int command_fail(const arguments *args, const fed_error *err) {
    fprintf(stderr, "fedserver %s: %s\n", args->command->name, err->text);
    return COMMAND_FAILED;
}

/* The audit log names the user of a command. sudo names the one who called it. */
static void name_user(fedserver *server) {
    char by[64];
    const char *sudo = getenv("SUDO_UID");
    const bool number =
        sudo != NULL && sudo[0] != '\0' && strspn(sudo, "0123456789") == strlen(sudo);
    snprintf(by, sizeof by, "uid=%lu%s%.20s", (unsigned long)getuid(), number ? " sudo_uid=" : "",
             number ? sudo : "");
    fedserver_act_for(server, by);
}

int command_with(const arguments *args, command_work work) {
    fed_error err = {0};
    fedserver *server = NULL;
    fed_status status = fedserver_open(args->dir, NULL, &server, &err);
    if (status == FED_OK) {
        name_user(server);
        status = work(server, args, &err);
    }
    fedserver_close(server);
    return status == FED_OK ? COMMAND_OK : command_fail(args, &err);
}

static bool among(const char *list, const char *word) {
    const size_t len = strlen(word);
    for (const char *at = list; at != NULL && *at != '\0'; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        if (strcspn(at, " ") == len && strncmp(at, word, len) == 0) {
            return true;
        }
    }
    return false;
}

static fed_status refuse_number(const struct row *row, const char *text, fed_error *err) {
    char low[32], high[32];
    fed_param_write(row->low, low, sizeof low);
    fed_param_write(row->high, high, sizeof high);
    return fed_fail(err, FED_EINVAL, "--%s is a %snumber from %s to %s, not %.60s", row->name,
                    row->kind == WHOLE ? "whole " : "", low, high, text[0] != '\0' ? text : "\"\"");
}

static fed_status take_whole(const struct row *row, const char *text, long *value, fed_error *err) {
    char *end;
    const unsigned long long read = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || read > LONG_MAX ||
        (double)read < row->low || (double)read > row->high) {
        return refuse_number(row, text, err);
    }
    *value = (long)read;
    return FED_OK;
}

static fed_status take_real(const struct row *row, const char *text, double *value,
                            fed_error *err) {
    double read = 0;
    if (!fed_text_number(text, &read) || read < row->low || read > row->high) {
        return refuse_number(row, text, err);
    }
    *value = read;
    return FED_OK;
}

static fed_status take_text(const struct row *row, const char *text, const char **value,
                            fed_error *err) {
    if (text[0] == '\0') {
        return fed_fail(err, FED_EINVAL, "the value of --%s is empty", row->name);
    }
    *value = text;
    return FED_OK;
}

static fed_status take_item(const struct row *row, const char *text, command_list *list,
                            fed_error *err) {
    if (list->count == COMMAND_LIST) {
        return fed_fail(err, FED_EINVAL, "--%s can be given at most %d times", row->name,
                        COMMAND_LIST);
    }
    FED_TRY(take_text(row, text, &list->items[list->count], err));
    list->count++;
    return FED_OK;
}

static fed_status take(const struct row *row, const char *value, arguments *args, fed_error *err) {
    void *member = (char *)args + row->offset;
    switch (row->kind) {
    case FLAG:
        *(bool *)member = true;
        return FED_OK;
    case TEXT:
        return take_text(row, value, member, err);
    case LIST:
        return take_item(row, value, member, err);
    case WHOLE:
        return take_whole(row, value, member, err);
    default:
        return take_real(row, value, member, err);
    }
}

static int take_operands(const command *cmd, int count, char **words, arguments *args) {
    const char *wanted = cmd->operands != NULL ? cmd->operands : "";
    int least = 0, most = 0;
    /* Count the words that may follow the options: "ID [POSITION]" is at least 1 and at most 2. */
    for (const char *at = wanted; *at != '\0'; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        least += *at != '[';
        most += 1;
    }
    if (count < least) {
        return command_usage(args, "an argument is missing; give", wanted);
    }
    if (count > most) {
        return command_usage(args, "too many arguments, from here on", words[most]);
    }
    for (int k = 0; k < count; k++) {
        args->operands[k] = words[k];
    }
    return -1;
}

int command_parse(const command *cmd, int argc, char **argv, arguments *args) {
    int val = 0;
    struct option names[ROWS + 2] = {[HELP] = {.name = "help", .flag = &val, .val = -1 - HELP}};
    for (size_t k = 0; k < ROWS; k++) {
        names[k].name = rows[k].name;
        names[k].has_arg = rows[k].kind == FLAG ? no_argument : required_argument;
        names[k].flag = &val;
        names[k].val = -1 - (int)k; /* see fed_option_refuse */
    }
    *args = defaults;
    args->command = cmd;
    opterr = 0; /* getopt_long prints nothing: command_usage prints the errors */
    int which = 0;
    for (int found; (found = getopt_long(argc, argv, ":", names, &which)) != -1;) {
        if (found == 0 && which == HELP) {
            fputs(cmd->help, stdout);
            return COMMAND_OK;
        }
        fed_error err = {0};
        if (found != 0) {
            fed_option_refuse(found, argv, names, &err);
        } else if (which != 0 && !among(cmd->options, rows[which].name)) {
            fed_fail(&err, FED_EINVAL, "%s has no option --%s", cmd->name, rows[which].name);
        } else if (take(&rows[which], optarg, args, &err) == FED_OK) {
            continue;
        }
        return command_usage(args, err.text, "");
    }
    if (args->dir == NULL) {
        return command_usage(args, "--dir is missing: give the coordinator's directory", "");
    }
    return take_operands(cmd, argc - optind, argv + optind, args);
}
