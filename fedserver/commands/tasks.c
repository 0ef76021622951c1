/* The commands on tasks: task, tasks, cancel, pause, resume, move, priority, status and export. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fed/point.h"
#include "fedserver/commands/command.h"

static void print_choice(const fedserver_task_entry *entry) {
    if (entry->codec_up_asked[0] != '\0') {
        printf("    updates: %s, chosen for %s\n", entry->codec_up, entry->codec_up_asked);
    }
}

static fed_status print_choice_of(void *user, const fedserver_task_entry *entry, fed_error *err) {
    (void)err;
    if (entry->id == *(const uint64_t *)user) {
        print_choice(entry);
    }
    return FED_OK;
}

/* Tell who runs the helper, and whom that protects from whom. */
static void print_helper(const fedserver_account *a) {
    const bool ours = strcmp(a->helper_is, "ours") == 0;
    if (a->helper[0] == '\0') {
        return;
    }
    printf("helper: the one with the key %s...%s%s\n", a->helper,
           a->helper_is[0] != '\0' && !ours ? ", run by " : "", ours ? "" : a->helper_is);
    if (ours) {
        fprintf(stderr, "fedserver task: note: you run coordinator and helper. That protects "
                        "updates against a stolen disk, a leaked backup or one curious person, and "
                        "not against you: let another party run the helper\n");
    } else if (a->helper_is[0] == '\0') {
        fprintf(stderr, "fedserver task: note: the task does not say who runs its helper: let "
                        "helper_is be the party's name, or \"ours\"\n");
    }
}

/* Tell what the task's noise costs, before it runs. */
static fed_status print_promise(fedserver *server, uint64_t id, fed_error *err) {
    fedserver_account a;
    FED_TRY(fedserver_account_find(server, id, &a, err));
    print_helper(&a);
    if (!a.promises) {
        return FED_OK;
    }
    printf("noise: z = %.3f; a device that takes part K times has epsilon", a.z);
    for (uint32_t k = 1; k <= a.participations;
         k = k < a.participations && 2 * k > a.participations ? a.participations : 2 * k) {
        printf("%s %.3g (K = %u)", k > 1 ? "," : "", fedserver_account_spent(&a, k), k);
    }
    printf(" at delta %.3g\n", a.delta);
    printf("the noise of all rounds is %.2f of the clip\n", a.ratio);
    if (a.ratio > 0.5) {
        fprintf(stderr,
                "fedserver task: note: more than 0.5 of the clip is much noise, and the model will "
                "be worse for it; that takes a goal of %.0f, or sending fewer values (codec_up "
                "ring:b=5,p=0.1), fewer participations, or a larger epsilon\n",
                a.goal);
    }
    return FED_OK;
}

/* Tell what stays on the devices, before one of them trains it. */
static void print_private(const fedserver_needs *needs) {
    if (needs->own_values > 0) {
        const unsigned long long own = needs->own_values, values = needs->values;
        printf("private layers: %llu of %llu values stay on each device, and %llu travel\n", own,
               values + own, values);
    }
}

static fed_status queue_task(fedserver *server, const arguments *args, fed_error *err) {
    uint64_t id = 0;
    FED_TRY(fedserver_task_add(server, fed_clock_unix_ms(), args->operands[0], &id, err));
    printf("task %llu is queued\n", (unsigned long long)id);
    FED_TRY(fedserver_task_each(server, fed_clock_unix_ms(), print_choice_of, &id, err));
    FED_TRY(print_promise(server, id, err));
    fedserver_needs needs;
    FED_TRY(fedserver_task_needs(server, id, &needs, err));
    print_private(&needs);
    if (needs.able < needs.devices) {
        fprintf(stderr,
                "fedserver task: note: %s of it need%s %u device%s, and %u that may train for "
                "it %s enrolled: admit more with `fedserver token`\n",
                needs.apart > 1 ? "rounds" : "a round", needs.apart > 1 ? "" : "s", needs.devices,
                needs.devices == 1 ? "" : "s", needs.able, needs.able == 1 ? "is" : "are");
    }
    if (fedserver_needs_much(&needs)) {
        char text[400];
        fedserver_needs_report(&needs, text, sizeof text);
        fprintf(stderr, "fedserver task: note: %s\n", text);
    }
    return FED_OK;
}

static fed_status print_json(fedserver *server, fed_error *err,
                             fed_status (*make)(fedserver *server, int64_t now_ms, fed_writer *w,
                                                fed_error *err)) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_status result = make(server, fed_clock_unix_ms(), &w, err);
    if (result == FED_OK) {
        fwrite(w.data, 1, w.len, stdout);
    }
    fed_writer_free(&w);
    return result;
}

static void print_when(const char *what, int64_t ms) {
    char text[32] = "";
    command_time(ms, text);
    if (ms != 0) {
        printf(", %s %.10s %.5s", what, text, text + 11);
    }
}

static fed_status print_task(void *user, const fedserver_task_entry *entry, fed_error *err) {
    char until[32];
    (void)err;
    ++*(size_t *)user;
    printf("%llu  %s", (unsigned long long)entry->id, fedserver_task_state_name(entry->state));
    if (entry->position != 0) {
        printf(" (%u)", entry->position);
    }
    printf("  %s: %u of %u rounds, priority %u", entry->name, entry->version, entry->rounds,
           entry->priority);
    print_when("queued", entry->queued_ms);
    print_when("started", entry->started_ms);
    print_when(entry->state == FEDSERVER_TASK_CANCELLED ? "cancelled" : "finished",
               entry->finished_ms);
    putchar('\n');
    print_choice(entry);
    if (entry->waits[0] != '\0') {
        printf("    %s: %s\n", entry->state == FEDSERVER_TASK_FINISHED ? "ended early" : "waits",
               entry->waits);
    }
    for (size_t k = 0; k < FEDSERVER_TASK_REASONS && entry->reasons[k].devices > 0; k++) {
        printf("    %u device%s declined: %s\n", entry->reasons[k].devices,
               entry->reasons[k].devices == 1 ? "" : "s", entry->reasons[k].text);
    }
    if (entry->declined_until_ms != 0) {
        command_time(entry->declined_until_ms, until);
        printf("    asked again: each after its next start, or after 24 hours, the first at %s\n",
               until);
    }
    return FED_OK;
}

static fed_status list_tasks(fedserver *server, const arguments *args, fed_error *err) {
    size_t count = 0;
    if (args->json) {
        return print_json(server, err, fedserver_tasks_json);
    }
    FED_TRY(fedserver_task_each(server, fed_clock_unix_ms(), print_task, &count, err));
    command_list_end(args, count, "there is no task; `fedserver task` queues one");
    return FED_OK;
}

static bool take_number(const char *text, unsigned long long most, unsigned long long *number) {
    char *end;
    *number = strtoull(text, &end, 10);
    return text[0] >= '1' && text[0] <= '9' && *end == '\0' && *number <= most;
}

static fed_status take_task(const arguments *args, uint64_t *id, fed_error *err) {
    unsigned long long number = 0;
    if (!take_number(args->operands[0], INT64_MAX, &number)) {
        return fed_fail(err, FED_EINVAL,
                        "\"%.40s\" is not a task's number; `fedserver tasks` lists them",
                        args->operands[0]);
    }
    *id = number;
    return FED_OK;
}

static fed_status change_task(fedserver *server, const arguments *args, fed_error *err) {
    static const struct {
        const command *command;
        fedserver_task_deed deed;
        const char *done;
    } changes[] = {{&command_cancel, FEDSERVER_CANCEL, "cancelled"},
                   {&command_pause, FEDSERVER_PAUSE, "paused"},
                   {&command_resume, FEDSERVER_RESUME, "resumed"}};
    size_t which = 0;
    uint64_t id = 0;
    while (changes[which].command != args->command) {
        which++;
    }
    FED_TRY(take_task(args, &id, err));
    FED_TRY(fedserver_task_change(server, fed_clock_unix_ms(), id, changes[which].deed, err));
    printf("task %llu is %s\n", (unsigned long long)id, changes[which].done);
    return FED_OK;
}

static fed_status move_task(fedserver *server, const arguments *args, fed_error *err) {
    uint64_t id = 0;
    unsigned long long position = 0;
    FED_TRY(take_task(args, &id, err));
    if (!take_number(args->operands[1], UINT32_MAX, &position)) {
        return fed_fail(err, FED_EINVAL, "\"%.40s\" is not a position in the queue; the first is 1",
                        args->operands[1]);
    }
    FED_TRY(fedserver_task_move(server, fed_clock_unix_ms(), id, (uint32_t)position, err));
    printf("task %llu is moved\n", (unsigned long long)id);
    return FED_OK;
}

static fed_status prioritize_task(fedserver *server, const arguments *args, fed_error *err) {
    uint64_t id = 0;
    unsigned long long priority = 0;
    FED_TRY(take_task(args, &id, err));
    if (!take_number(args->operands[1], UINT32_MAX, &priority)) {
        return fed_fail(err, FED_EINVAL, "\"%.40s\" is not a priority; it is a number from 1 to 9",
                        args->operands[1]);
    }
    FED_TRY(fedserver_task_prioritize(server, fed_clock_unix_ms(), id, (uint32_t)priority, err));
    printf("task %llu has priority %llu\n", (unsigned long long)id, priority);
    return FED_OK;
}

static fed_status reopen_round(fedserver *server, const arguments *args, fed_error *err) {
    char keys[FED_POINTS_TEXT];
    fed_points points;
    uint64_t id = 0;
    fedserver_reopened lost = {0};
    FED_TRY(take_task(args, &id, err));
    if (args->helper != NULL) {
        FED_TRY(fed_points_load(args->helper, &points, err));
        fed_points_write(&points, keys);
    }
    const fedserver_reopening_options options = {
        .helper = args->helper != NULL ? keys : NULL, .spare = args->spare, .force = args->force};
    FED_TRY(fedserver_task_reopen(server, fed_clock_unix_ms(), id, &options, &lost, err));
    printf("task %llu: round %u is open again, and %u update%s lost; its devices train anew\n",
           (unsigned long long)id, lost.round, lost.updates, lost.updates == 1 ? " is" : "s are");
    return FED_OK;
}

static fed_status print_status(fedserver *server, const arguments *args, fed_error *err) {
    char text[4096] = "";
    if (args->json) {
        return print_json(server, err, fedserver_status_json);
    }
    const fed_status result = fedserver_status(server, fed_clock_unix_ms(), text, sizeof text, err);
    fputs(text, stdout);
    return result;
}

static fed_status export_model(fedserver *server, const arguments *args, fed_error *err) {
    return fedserver_model_export(server, (uint64_t)args->task, args->operands[0], err);
}

const command command_task = {
    .name = "task",
    .work = queue_task,
    .operands = "FILE.json",
    .brief = "queue a training task",
    .help = "usage: fedserver task --dir DIR FILE.json\n"
            "Queue a training task. It starts at once if it fits into the memory for tasks "
            "(`fedserver run\n"
            "--task-memory`) beside the running tasks. Keys: docs/protocol.md#task.\n"};

const command command_tasks = {
    .name = "tasks",
    .work = list_tasks,
    .options = "json",
    .brief = "list them",
    .help =
        "usage: fedserver tasks --dir DIR [--json]\n"
        "List the tasks that run, the queue in its order, and what is paused or over. Says why\n"
        "a task waits, and why devices declined it.\n"
        "  --json   for programs: the list of /v1/status (docs/protocol.md)\n"};

const command command_cancel = {
    .name = "cancel",
    .work = change_task,
    .operands = "ID",
    .brief = "end a task, and delete its model",
    .help = "usage: fedserver cancel --dir DIR ID\n"
            "End task ID: its model, deltas and updates are deleted, its rounds stay in the list.\n"
            "Devices that train for it go on with another task.\n"};

const command command_pause = {
    .name = "pause",
    .work = change_task,
    .operands = "ID",
    .brief = "pause a task",
    .help = "usage: fedserver pause --dir DIR ID\n"
            "Pause task ID: no device trains for it, and its memory is free. Its open round "
            "keeps\n"
            "the updates that have arrived.\n"};

const command command_resume = {
    .name = "resume",
    .work = change_task,
    .operands = "ID",
    .brief = "put a paused task first in the queue",
    .help = "usage: fedserver resume --dir DIR ID\n"
            "Put task ID, which is paused, first in the queue. Devices that declined it are asked "
            "anew,\n"
            "also if it is not paused.\n"};

const command command_move = {
    .name = "move",
    .work = move_task,
    .operands = "ID POSITION",
    .brief = "move a task in the queue",
    .help = "usage: fedserver move --dir DIR ID POSITION\n"
            "Give task ID, which is queued, another position in the queue; the first is 1.\n"};

const command command_priority = {
    .name = "priority",
    .work = prioritize_task,
    .operands = "ID N",
    .brief = "say which task's devices come first",
    .help = "usage: fedserver priority --dir DIR ID N\n"
            "Give task ID, which is not over, the priority N, from 1 to 9. A device that could "
            "serve\n"
            "several tasks gets the one with the larger priority. Devices that train go on.\n"};

const command command_reopen = {
    .name = "reopen",
    .work = reopen_round,
    .options = "helper spare force",
    .operands = "ID",
    .brief = "void a round that its helper can't open any more",
    .help =
        "usage: fedserver reopen --dir DIR [--helper FILE | --spare] [--force] ID\n"
        "Void the open round of task ID, which has a helper: its updates are lost, and its "
        "devices\n"
        "train anew, under new terms. For when the helper's disk is lost, or when it refuses the\n"
        "round for good. Says how many updates would be lost, and does nothing then without "
        "--force.\n"
        "  --helper FILE   helper.pem of another helper, which the task names from now on\n"
        "  --spare         the task names the spare key of its helper.pem from now on: its helper "
        "is\n"
        "                  started anew with that\n"
        "  --force         void the round, although it has updates\n"};

const command command_status = {
    .name = "status",
    .work = print_status,
    .options = "json",
    .brief = "what a round waits for",
    .help = "usage: fedserver status --dir DIR [--json]\n"
            "Tell of each running task for which devices its round waits, until when, and what "
            "happens then.\n"
            "  --json   for programs (docs/protocol.md)\n"};

const command command_export = {.name = "export",
                                .work = export_model,
                                .options = "task",
                                .operands = "OUT.safetensors",
                                .brief = "write the newest model",
                                .help =
                                    "usage: fedserver export --dir DIR [--task N] OUT.safetensors\n"
                                    "Write the newest model.\n"
                                    "  --task N   of that task (default: the first of those that "
                                    "run, or the one that ran last)\n"};
