/* Estimates what a task needs of the machine from the size of its model. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/operator/needs.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "fed/machine.h"
#include "fedcodec/envelope.h"
#include "fedserver/memory_note.h"
#include "fedserver/rounds/task_memory.h"
#include "fedserver/server.h"
#include "fedserver/stores/task_model.h"
#include "fedserver/task/phases.h"
#include "fedserver/task/private_task.h"
#include "fedserver/versions/object_cache.h"

/* sizes on disk; unit: a vector of the model's size */
enum {
    /* the model and its residual; two keyframes; deltas of up to twice the model's size */
    DISK_VECTORS = 2 + 2 + 2,
    /* the database's journal of a commit: the model and its residual, a keyframe, a delta */
    JOURNAL_VECTORS = 2 + 1 + 1,
    /* if caches serve downloads: the sealed files for them, and the one that is being made */
    SEALED_VECTORS = FEDSERVER_OBJECT_CACHE_SNAPSHOTS + 1
};

fed_status fedserver_needs_estimate(const fedserver_task *task, const fed_layout *layout,
                                    fedserver_needs *needs, fed_error *err) {
    fedserver_strategy strategy;
    uint64_t memory = 0;
    FED_TRY(fedserver_memory_of(task, layout, &memory, err));
    FED_TRY(fedserver_strategy_parse(task->strategy, &strategy, err));
    const uint64_t vector = layout->size * sizeof(float);
    const uint64_t state =
        fedserver_strategy_state_size(&strategy, fedserver_trained(layout)) * sizeof(float);
    uint64_t update = 0;
    for (uint32_t k = 0; k <= task->phase_count; k++) {
        const fedserver_phase phase = fedserver_phase_at(task, k);
        fedcodec codec[2];
        fed_error ignored = {0};
        if (fedcodec_parse_pair(phase.codec_up, task->wire.codec_variates, codec, &ignored) ==
            FED_OK) {
            const uint64_t size = fedcodec_envelope_bound(codec, layout, task->wire.small_tensor);
            update = size > update ? size : update;
        }
    }
    const bool all = fedserver_strategy_needs_all(&strategy);
    const uint64_t groups = fedserver_task_groups(task), row = 2 * vector + state;
    const uint64_t opening = fedserver_task_has_helper(task) && groups > 1 ? groups * vector : 0;
    const uint64_t combined = !all ? 0 : groups > 1 ? groups : task->rules.goal;
    const uint64_t sealed = task->wire.downloads[0] != '\0' ? SEALED_VECTORS : 0;
    *needs = (fedserver_needs){
        .values = layout->size,
        .row_bytes = opening > row ? opening : row,
        .model_bytes = (DISK_VECTORS + JOURNAL_VECTORS + sealed) * vector + 2 * state,
        .update_bytes = update * task->rules.goal + combined * vector,
        .memory_bytes = memory,
    };
    return FED_OK;
}

static uint64_t free_bytes(const char *directory) {
    struct statvfs disk;
    return statvfs(directory, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : 0;
}

/* Write a size with a unit that fits it, such as "31.4 KB". Returns dst. */
static const char *write_size(uint64_t bytes, char dst[24]) {
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB", "PB"};
    double size = (double)bytes;
    size_t k = 0;
    while (size >= 999.95 && k + 1 < sizeof units / sizeof units[0]) {
        size /= 1000;
        k++;
    }
    snprintf(dst, 24, "%.*f %s", k == 0 ? 0 : 1, size, units[k]);
    return dst;
}

fed_status fedserver_needs_check(const fedserver_needs *needs, uint64_t row_limit,
                                 const char *directory, fed_error *err) {
    char takes[24], most[24];
    if (row_limit != 0 && needs->row_bytes > row_limit) {
        return fed_fail(
            err, FED_ERANGE,
            "a model of %llu values can't be stored: with what its deltas leave out and "
            "the strategy's state, or as the masks of its groups, it takes %s, and at most %s is "
            "possible; choose a smaller model, or fewer groups if the task has them",
            (unsigned long long)needs->values, write_size(needs->row_bytes, takes),
            write_size(row_limit, most));
    }
    const uint64_t room = free_bytes(directory);
    if (room == 0 || needs->model_bytes <= room) {
        return FED_OK;
    }
    return fed_fail(err, FED_ENOSPC,
                    "%s: a model of %llu values takes up to %s of disk, and %s are free; "
                    "free some space, or choose a smaller model",
                    directory, (unsigned long long)needs->values,
                    write_size(needs->model_bytes, takes), write_size(room, most));
}

fed_status fedserver_memory_limit(const fedserver *server, uint64_t *bytes, fed_error *err) {
    if (!server->serving) {
        return fedserver_memory_note_read(server->directory, bytes, err);
    }
    *bytes = server->rounds.memory_limit;
    return FED_OK;
}

fed_status fedserver_needs_fit(const fedserver *server, const fedserver_needs *needs,
                               fed_error *err) {
    uint64_t limit = 0;
    char takes[24], most[24];
    FED_TRY(fedserver_memory_limit(server, &limit, err));
    if (fedserver_memory_fits(limit, 0, needs->memory_bytes)) {
        return FED_OK;
    }
    return fed_fail(err, FED_ERANGE,
                    "a task with a model of %llu values takes %s of memory while it runs, and "
                    "all tasks together may take %s; choose a smaller model, or start "
                    "`fedserver run` with a larger --task-memory",
                    (unsigned long long)needs->values, write_size(needs->memory_bytes, takes),
                    write_size(limit, most));
}

typedef struct able_count {
    const fedserver_task *task;
    uint32_t able;
    int64_t last; /* id of the device that was visited last */
} able_count;

static fed_status count_able(void *user, const fedserver_device *device, fed_error *err) {
    able_count *c = user;
    (void)err;
    c->last = device->id;
    c->able += device->role == FEDSERVER_ROLE_DEVICE && device->revoked_ms == 0 &&
               device->expires_ms > c->task->queued_ms &&
               (c->task->tag[0] == '\0' || strcmp(c->task->tag, device->tag) == 0);
    return FED_OK;
}

/* Count the devices that may train for the task, until there are enough. */
static fed_status find_able(fedserver *server, const fedserver_task *task, uint32_t enough,
                            uint32_t *able, fed_error *err) {
    enum { PAGE = 1000 };
    able_count c = {.task = task};
    int64_t before = -1;
    while (c.able < enough && c.last != before) {
        before = c.last;
        FED_TRY(server->store->device_page(server->db, task->wire.id, before, PAGE, count_able, &c,
                                           err));
    }
    *able = c.able < enough ? c.able : enough;
    return FED_OK;
}

fed_status fedserver_task_needs(fedserver *server, uint64_t id, fedserver_needs *needs,
                                fed_error *err) {
    fedserver_task task;
    FED_TRY(server->store->task_find(server->db, FEDSERVER_PICK_ID, id, &task, err));
    fed_arch arch;
    FED_TRY(fedserver_task_model(server->store, server->db, &task, &arch, err));
    const fed_status status = fedserver_needs_estimate(&task, &arch.layout, needs, err);
    fed_arch_free(&arch);
    FED_TRY(status);
    FED_TRY(
        fedserver_task_private(server->store, server->db, &task, NULL, &needs->own_values, err));
    needs->disk_free_bytes = free_bytes(server->directory);
    needs->machine_bytes = fed_machine_bytes();
    /* with staleness one device may give several updates to a round */
    needs->devices = task.rules.staleness > 0 ? 1 : fedserver_round_least(&task.rules);
    /* and a device rests for apart - 1 rounds after one */
    needs->apart = fedserver_task_apart(&task);
    needs->devices *= needs->apart;
    return find_able(server, &task, needs->devices, &needs->able, err);
}

bool fedserver_needs_much(const fedserver_needs *needs) {
    const uint64_t much = UINT64_C(1000000000);
    const uint64_t disk = needs->model_bytes + needs->update_bytes;
    return disk > much || needs->memory_bytes > much ||
           (needs->disk_free_bytes != 0 && disk > needs->disk_free_bytes / 2) ||
           (needs->machine_bytes != 0 && needs->memory_bytes > needs->machine_bytes / 2);
}

void fedserver_needs_report(const fedserver_needs *needs, char *dst, size_t cap) {
    char text[5][24];
    snprintf(
        dst, cap,
        "its model has %llu values: while it runs it takes up to %s of disk for the model "
        "and %s for a round's updates (%s are free), and about %s of memory (this machine has %s)",
        (unsigned long long)needs->values, write_size(needs->model_bytes, text[0]),
        write_size(needs->update_bytes, text[1]), write_size(needs->disk_free_bytes, text[2]),
        write_size(needs->memory_bytes, text[3]), write_size(needs->machine_bytes, text[4]));
}
