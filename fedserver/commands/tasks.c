/* task, status, export: what is trained, how far it is, and what came out. */
#include <stdio.h>

#include "fed/clock.h"
#include "fedserver/commands/command.h"

static fed_status queue_task(fedserver *server, const arguments *args, fed_error *err) {
    uint64_t id = 0;
    FED_TRY(fedserver_task_add(server, fed_clock_unix_ms(), args->operands[0], &id, err));
    printf("task %llu is queued\n", (unsigned long long)id);
    return FED_OK;
}

static int task(const arguments *args) {
    return command_with(args, queue_task);
}

static fed_status print_status(fedserver *server, const arguments *args, fed_error *err) {
    (void)args;
    char text[1024] = "";
    const fed_status result = fedserver_status(server, fed_clock_unix_ms(), text, sizeof text, err);
    fputs(text, stdout);
    return result;
}

static int status(const arguments *args) {
    return command_with(args, print_status);
}

static fed_status export_model(fedserver *server, const arguments *args, fed_error *err) {
    return fedserver_model_export(server, (uint64_t)args->task, args->operands[0], err);
}

static int export(const arguments *args) {
    return command_with(args, export_model);
}

const command command_task = {
    .name = "task",
    .run = task,
    .operands = "FILE.json",
    .brief = "queue a training task",
    .help = "usage: fedserver task --dir DIR FILE.json\n"
            "Queue a training task; it starts when no other runs. Keys: docs/protocol.md#task.\n"};

const command command_status = {
    .name = "status",
    .run = status,
    .brief = "what a round waits for",
    .help = "usage: fedserver status --dir DIR\n"
            "Say what goes on: the task, for whom its round waits, until when, what happens "
            "then.\n"};

const command command_export = {
    .name = "export",
    .run = export,
    .options = "task",
    .operands = "OUT.safetensors",
    .brief = "write the newest model",
    .help = "usage: fedserver export --dir DIR [--task N] OUT.safetensors\n"
            "Write the newest model.\n"
            "  --task N   of that task (default: the one that runs or ran last)\n"};
