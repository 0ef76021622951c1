/* The command page: makes links and bearer tokens for those who may read the page. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "fed/clock.h"
#include "fedserver/commands/command.h"

bool command_find_page(const char *name, fedserver_page *page, bool *reads) {
    static const char *const names[] = {"loopback", "operators", "all"};
    static const char only[] = "read";
    const char *comma = strchr(name, ',');
    const size_t len = comma != NULL ? (size_t)(comma - name) : strlen(name);
    *reads = strcmp(comma != NULL ? comma + 1 : name, only) == 0;
    if (comma == NULL && *reads) {
        *page = FEDSERVER_PAGE_LOOPBACK;
        return true;
    }
    for (int k = 0; k < 3; k++) {
        if (strlen(names[k]) == len && strncmp(names[k], name, len) == 0) {
            *page = (fedserver_page)k;
            return comma == NULL || *reads;
        }
    }
    return false;
}

static fed_status end_all(fedserver *server, const arguments *args, fed_error *err) {
    (void)args;
    FED_TRY(fedserver_pass_revoke_all(server, fed_clock_unix_ms(), err));
    puts("All links, sessions and bearer tokens have ended.");
    return FED_OK;
}

static fed_status print_pass(fedserver *server, const arguments *args, fed_error *err) {
    char token[FEDSERVER_TOKEN];
    const char *host = args->hosts.count > 0 ? args->hosts.items[0] : "localhost";
    const bool v6 = strchr(host, ':') != NULL;
    FED_TRY(fedserver_pass_grant(
        server, fed_clock_unix_ms(), args->bearer ? FEDSERVER_PASS_READER : FEDSERVER_PASS_LINK,
        args->bearer ? (int64_t)(args->days * 24 * 3600) : FEDSERVER_LINK_S, token, err));
    if (args->bearer) {
        puts(token);
    } else {
        const long served = fedserver_front_port(server);
        const long port = args->front_port >= 0 ? args->front_port
                          : served > 0          ? served
                                                : COMMAND_FRONT_PORT;
        printf("https://%s%s%s:%ld/login#%s\n", v6 ? "[" : "", host, v6 ? "]" : "", port, token);
    }
    return FED_OK;
}

static int page(const arguments *args) {
    return command_with(args, args->revoke ? end_all : print_pass);
}

const command command_page = {
    .name = "page",
    .run = page,
    .options = "host front-port bearer days revoke",
    .brief = "let a browser or a program read the page",
    .help =
        "usage: fedserver page --dir DIR [--host NAME] [--front-port N] [--bearer [--days D]] "
        "[--revoke]\n"
        "Print a link that logs a browser in: good once, within 10 minutes, for 12 hours.\n"
        "  --host NAME      of the coordinator, as the browser reaches it (default localhost)\n"
        "  --front-port N   of a proxy, if browsers come through one (default: at which the\n"
        "                   coordinator is served, or was last)\n"
        "  --bearer         print a token instead, with which a program such as Prometheus reads\n"
        "                   status and metrics: Authorization: Bearer TOKEN\n"
        "  --days D         how long the token is valid (default 365)\n"
        "  --revoke         end all links, sessions and bearer tokens at once\n"};
