/* The command ledger: in how many rounds each device took part, and what a restore has lost. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "fed/clock.h"
#include "fedserver/commands/command.h"

static fed_status print_participant(void *user, const fedserver_participant *p, fed_error *err) {
    (void)err;
    ++*(size_t *)user;
    printf("%s  took part %u times, the last in round %u, epsilon %.4g  %s\n", p->fingerprint,
           p->taken, p->last_round, p->spent, p->name);
    return FED_OK;
}

static fed_status print_participant_json(void *user, const fedserver_participant *p,
                                         fed_error *err) {
    json_t *item = json_pack("{s:s, s:s, s:I, s:I, s:f}", "fingerprint", p->fingerprint, "name",
                             p->name, "taken", (json_int_t)p->taken, "last_round",
                             (json_int_t)p->last_round, "spent", p->spent);
    return command_json_item(user, item, err);
}

static fed_status note_lost(fedserver *server, const arguments *args, uint64_t id, fed_error *err) {
    uint64_t updates = 0;
    FED_TRY(fedserver_ledger_lost(server, fed_clock_unix_ms(), id, (uint32_t)args->lost, &updates,
                                  err));
    printf("task %llu: each device is charged for %ld more rounds; the ledger is complete\n",
           (unsigned long long)id, args->lost);
    if (updates > 0) {
        printf("%llu updates of the open round are dropped: their devices have no participation "
               "left\n",
               (unsigned long long)updates);
    }
    return FED_OK;
}

static fed_status show_ledger(fedserver *server, const arguments *args, fed_error *err) {
    char *end = NULL;
    size_t count = 0;
    const unsigned long long id = strtoull(args->operands[0], &end, 10);
    if (id == 0 || id > INT64_MAX || *end != '\0') {
        return fed_fail(err, FED_EINVAL,
                        "\"%.40s\" is not a task's number; `fedserver tasks` lists them",
                        args->operands[0]);
    }
    if (args->lost >= 0) {
        return note_lost(server, args, id, err);
    }
    FED_TRY(fedserver_participant_each(
        server, id, args->json ? print_participant_json : print_participant, &count, err));
    command_list_end(args, count, "no device took part in a round yet");
    return FED_OK;
}

const command command_ledger = {
    .name = "ledger",
    .work = show_ledger,
    .options = "lost json",
    .operands = "ID",
    .brief = "list who took part in a private task",
    .help =
        "usage: fedserver ledger --dir DIR [--lost N] [--json] ID\n"
        "List the devices that took part in task ID, which promises an epsilon: how often, when\n"
        "last, and the epsilon that this cost.\n"
        "  --lost N   after a restore: charge N more rounds to every device, for those that the\n"
        "             backup does not know. Without it the task stays paused.\n"
        "  --json     a list of objects\n"};
