/* token: who may enrol. */
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
    (void)find_role(args->role, &grant.role); /* it is there: token() has looked */
    for (long k = 0; k < args->count; k++) {
        char text[FEDSERVER_TOKEN];
        char name[2 * FEDSERVER_NAME];
        if (args->name != NULL && args->count > 1) { /* NAME-1, NAME-2, ... */
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
        return command_usage(args, "there is no such role", args->role);
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
            "  --role ROLE   device, evaluator or operator (default device)\n"
            "  --tag TAG     of which group the device is, for tasks that ask for one\n"
            "  --name NAME   what people call the device, instead of what it calls itself;\n"
            "                with --count it becomes NAME-1, NAME-2, ...\n"};
