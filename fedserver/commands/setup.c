/* The commands init, backup, restore, check and health: a coordinator's directory as a whole. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/crypto.h"
#include "fed/utf8.h"
#include "fedserver/commands/upstream.h"
#include "fedserver/http.h"

static int init(const arguments *args) {
    char machine[256] = "";
    const char *hosts[] = {"localhost", "127.0.0.1", "::1", NULL, NULL};
    /* A machine's name need not be valid in a certificate. */
    if (gethostname(machine, sizeof machine - 1) == 0 && fed_host_is_valid(machine)) {
        hosts[3] = machine;
    }
    const fedserver_init_options options = {
        .hosts = args->hosts.count > 0 ? args->hosts.items : hosts, .store = args->store};
    fed_error err = {0};
    const fed_status status = fedserver_init(args->dir, &options, &err);
    if (status == FED_EEXIST && args->keep) {
        printf("%s holds a coordinator already; it is left as it is\n", args->dir);
        return COMMAND_OK;
    }
    if (status != FED_OK) {
        return command_fail(args, &err);
    }
    printf("%s is ready. Devices need %s/ca.pem and a token (fedserver token).\n", args->dir,
           args->dir);
    return COMMAND_OK;
}

/* JSON holds UTF-8 only, and a path may have any bytes. */
static json_t *json_path(const char *path) {
    char clean[1024];
    snprintf(clean, sizeof clean, "%s", path);
    fed_utf8_clean(clean);
    return json_string(clean);
}

static fed_status make_backup(fedserver *server, const arguments *args, fed_error *err) {
    char folder[1024];
    FED_TRY(fedserver_backup(server, args->operands[0], err));
    upstream_folder(args->dir, folder, sizeof folder);
    const bool edge = access(folder, F_OK) == 0;
    if (args->json) {
        return command_json(json_pack("{s:o, s:o, s:o}", "directory", json_path(args->dir),
                                      "backup", json_path(args->operands[0]), "left_out",
                                      edge ? json_path(folder) : json_null()),
                            err);
    }
    printf("%s is a backup of %s\n", args->operands[0], args->dir);
    if (edge) {
        printf("%s is not in the backup, since a residual that is restored would count twice: an "
               "edge aggregator that "
               "is restored begins its task anew, and needs a new token from upstream\n",
               folder);
    }
    return FED_OK;
}

static fed_status note_restored(fedserver *server, const arguments *args, fed_error *err) {
    FED_TRY(fedserver_restored(server, fed_clock_unix_ms(), err));
    printf("%s knows now that its store was restored\n", args->dir);
    return FED_OK;
}

static int restore(const arguments *args) {
    fed_error err = {0};
    if ((args->operands[0] != NULL) == args->database) {
        return command_usage(args, "give either a BACKUP or --database", "");
    }
    if (args->database) {
        return command_with(args, note_restored);
    }
    if (fedserver_restore(args->operands[0], args->dir, &err) != FED_OK) {
        return command_fail(args, &err);
    }
    printf("%s is restored from %s\n", args->dir, args->operands[0]);
    return COMMAND_OK;
}

static void print_check(void *user, fedserver_check_kind kind, const char *text) {
    static const char *const marks[] = {"ok      ", "note    ", "BROKEN  "};
    (void)user;
    printf("%s%s\n", marks[kind], text);
}

/* The lines of `fedserver check --json`. */
typedef struct check_list {
    size_t count;
    fed_status status;
    fed_error err;
} check_list;

static void print_check_json(void *user, fedserver_check_kind kind, const char *text) {
    static const char *const kinds[] = {"checked", "noted", "broken"};
    check_list *list = user;
    if (list->status == FED_OK) {
        list->status = command_json_item(
            &list->count, json_pack("{s:s, s:s}", "kind", kinds[kind], "text", text), &list->err);
    }
}

static fed_status check_open(fedserver *server, const arguments *args, size_t *findings,
                             fed_error *err) {
    check_list list = {.status = FED_OK};
    if (!args->json) {
        FED_TRY(fedserver_check(server, print_check, NULL, findings, err));
        printf("%s: %zu rules broken\n", args->dir, *findings);
        return FED_OK;
    }
    const fed_status status = fedserver_check(server, print_check_json, &list, findings, err);
    command_list_end(args, list.count, NULL);
    FED_TRY(status);
    return list.status == FED_OK ? FED_OK : fed_fail(err, list.status, "%s", list.err.text);
}

static int check(const arguments *args) {
    fed_error err = {0};
    fedserver *server = NULL;
    size_t findings = 0;
    fed_status status = fedserver_open(args->dir, NULL, &server, &err);
    if (status == FED_OK) {
        status = check_open(server, args, &findings, &err);
    }
    fedserver_close(server);
    if (status != FED_OK) {
        return command_fail(args, &err);
    }
    return findings == 0 ? COMMAND_OK : COMMAND_FAILED;
}

static int health(const arguments *args) {
    fed_error err = {0}, why = {0};
    const bool answers = fedserver_health(args->dir, &why) == FED_OK &&
                         fedserver_http_health(args->dir, &why) == FED_OK;
    if (!args->json && answers) {
        printf("%s is served, and answers\n", args->dir);
    } else if (args->json &&
               command_json(json_pack("{s:o, s:b, s:o}", "directory", json_path(args->dir),
                                      "answers", answers, "reason",
                                      answers ? json_null() : json_path(why.text)),
                            &err) != FED_OK) {
        return command_fail(args, &err);
    }
    return answers ? COMMAND_OK : command_fail(args, &why);
}

const command command_init = {
    .name = "init",
    .run = init,
    .options = "host keep store",
    .brief = "make a coordinator",
    .help = "usage: fedserver init --dir DIR [--host NAME]... [--keep] [--store NAME[:WHERE]]\n"
            "Make a coordinator: a CA, a server certificate, an empty store.\n"
            "  --dir DIR     the coordinator's directory, which is made\n"
            "  --host NAME   a name or address by which devices reach it; may be repeated\n"
            "                (default: localhost, 127.0.0.1, ::1 and this machine's name)\n"
            "  --keep        if DIR holds a coordinator already, leave it as it is, and succeed\n"
            "  --store NAME  the database that keeps tasks, models and devices (default: sqlite, "
            "in DIR)\n"};

const command command_backup = {
    .name = "backup",
    .work = make_backup,
    .options = "json",
    .operands = "DIRECTORY",
    .brief = "copy a coordinator while it serves",
    .help =
        "usage: fedserver backup --dir DIR [--json] DIRECTORY\n"
        "Copy the coordinator as it is now, served or not, into DIRECTORY, which is made. The "
        "copy is\n"
        "a whole coordinator, with the CA's key: keep it as safe. An edge aggregator's state as "
        "a\n"
        "device, DIR/upstream, is not copied.\n"
        "  --json   for programs: directory, backup, and left_out, a folder that is not copied\n"};

const command command_restore = {
    .name = "restore",
    .run = restore,
    .options = "database",
    .operands = "[BACKUP]",
    .brief = "make a coordinator from a backup",
    .help =
        "usage: fedserver restore --dir DIR BACKUP | --database\n"
        "Make a coordinator in DIR, which must hold none, from a backup. What happened since "
        "is\n"
        "forgotten, revocations too: revoke those devices again. Devices go on by "
        "themselves.\n"
        "The backup may be of an older release, and stays as it is.\n"
        "  --database   the coordinator in DIR has a database that was restored by its own means:\n"
        "               tell it so before it is served again, since private tasks must know\n"};

const command command_check = {
    .name = "check",
    .run = check,
    .options = "json",
    .brief = "verify what is stored",
    .help =
        "usage: fedserver check --dir DIR [--json]\n"
        "Verify all that is stored, while nobody serves DIR; to check a coordinator that "
        "serves,\n"
        "check a backup. Prints what was checked and what is broken; exits with 1 if anything "
        "is.\n"
        "A backup of an older release: restore it into a new directory, and check that one.\n"
        "  --json   for programs: a list of lines, each with kind and text; a kind is checked,\n"
        "           noted or broken\n"};

const command command_health = {
    .name = "health",
    .run = health,
    .options = "json",
    .brief = "check that a coordinator is served",
    .help =
        "usage: fedserver health --dir DIR [--json]\n"
        "Ask the process that serves DIR whether it is well, over a socket in DIR, then the\n"
        "listeners for devices and for the front, at the addresses where they serve. Waits ten\n"
        "seconds for the process, and four for each listener. Exits with 0 if all answer, else\n"
        "with 1 and the reason: for the health checks of containers.\n"
        "  --json   for programs: directory, answers and reason\n"};
