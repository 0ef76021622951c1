/* The commands token and tokens: who may enrol. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "fed/clock.h"
#include "fedserver/commands/command.h"

static bool find_role(const char *name, fedserver_role *role) {
    const char *known;
    for (int k = 0; (known = fedserver_role_name((fedserver_role)k)) != NULL; k++) {
        if (strcmp(known, name) == 0) {
            *role = (fedserver_role)k;
            return true;
        }
    }
    return false;
}

static fed_status grant_tokens(fedserver *server, const arguments *args, fed_error *err) {
    fedserver_grant grant = {.ttl_s = args->hours * 3600, .tag = args->tag, .name = args->name};
    (void)find_role(args->role, &grant.role);
    for (long k = 0; k < args->count; k++) {
        char text[FEDSERVER_TOKEN];
        char name[2 * FEDSERVER_NAME];
        if (args->name != NULL && args->count > 1) {
            snprintf(name, sizeof name, "%s-%ld", args->name, k + 1);
            grant.name = name;
        }
        FED_TRY(fedserver_token_grant(server, fed_clock_unix_ms(), &grant, text, err));
        puts(text);
    }
    return FED_OK;
}

static int token(const arguments *args) {
    fedserver_role role;
    if (!find_role(args->role, &role)) {
        return command_usage(args, "--role must be device, evaluator, operator or helper, not",
                             args->role);
    }
    return command_with(args, grant_tokens);
}

const command command_token = {
    .name = "token",
    .run = token,
    .options = "count hours role tag name",
    .brief = "admit devices",
    .help = "usage: fedserver token --dir DIR [--count N] [--hours H] [--role ROLE] [--tag TAG]\n"
            "                       [--name NAME]\n"
            "Print one-time enrolment tokens, one a line.\n"
            "  --count N     how many (default 1)\n"
            "  --hours H     how long they are valid (default 24)\n"
            "  --role ROLE   device, evaluator, operator or helper (default device)\n"
            "  --tag TAG     the device's group; a task may be only for one group\n"
            "  --name NAME   what people call the device, instead of what it calls itself;\n"
            "                with --count it becomes NAME-1, NAME-2, ...\n"};

static const char *state_of(const fedserver_token_entry *entry) {
    return entry->used_ms != 0                        ? "used"
           : entry->withdrawn_ms != 0                 ? "withdrawn"
           : entry->expires_ms <= fed_clock_unix_ms() ? "expired"
                                                      : "unused";
}

static fed_status print_token(void *user, const fedserver_token_entry *entry, fed_error *err) {
    char made[32], expires[32];
    ++*(size_t *)user;
    (void)err;
    command_time(entry->made_ms, made);
    command_time(entry->expires_ms, expires);
    printf("%s  %-9s  made %-20s  expires %s  %s%s%s%s%s\n", entry->id, state_of(entry), made,
           expires, fedserver_role_name(entry->role), entry->tag[0] != '\0' ? " " : "", entry->tag,
           entry->name[0] != '\0' ? "  " : "", entry->name);
    return FED_OK;
}

static fed_status print_token_json(void *user, const fedserver_token_entry *entry, fed_error *err) {
    json_t *item = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:o, s:o}", "id", entry->id, "state", state_of(entry),
        "role", fedserver_role_name(entry->role), "tag", entry->tag, "name", entry->name, "made_ms",
        command_json_time(entry->made_ms), "expires_ms", (json_int_t)entry->expires_ms, "used_ms",
        command_json_time(entry->used_ms), "withdrawn_ms", command_json_time(entry->withdrawn_ms));
    return command_json_item(user, item, err);
}

static fed_status list_tokens(fedserver *server, const arguments *args, fed_error *err) {
    size_t count = 0;
    fedserver_token_entry entry;
    if (args->withdraw != NULL) {
        FED_TRY(fedserver_token_withdraw(server, fed_clock_unix_ms(), args->withdraw, &entry, err));
        FED_TRY((args->json ? print_token_json : print_token)(&count, &entry, err));
    } else {
        FED_TRY(
            fedserver_token_each(server, args->json ? print_token_json : print_token, &count, err));
    }
    command_list_end(args, count, "no token was made yet; `fedserver token` makes one");
    return FED_OK;
}

const command command_tokens = {
    .name = "tokens",
    .work = list_tokens,
    .options = "withdraw json",
    .brief = "list tokens, withdraw one",
    .help =
        "usage: fedserver tokens --dir DIR [--withdraw ID] [--json]\n"
        "List the enrolment tokens: id, state, until when, for whom. The tokens themselves are\n"
        "kept by nobody; an id is the beginning of a token's SHA-256.\n"
        "  --withdraw ID   let nobody enrol with that token; ID may be cut to 8 digits\n"
        "  --json          a list of objects\n"};
