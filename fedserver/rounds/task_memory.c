/* Computes a task's memory in vectors: arrays of one float for each value of the model. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/task_memory.h"

#include <stdio.h>

#include "fedserver/rounds/intake.h"
#include "fedserver/stores/task_model.h"
#include "fedserver/task/private_task.h"

enum {
    /* Model and residual (2), the chain of deltas (1), downloads (2), a round's sum of 8 bytes a
     * value (2). While the round closes: the change and the decoded values (2), and the next
     * version's values and delta, or the commit's journal (2). */
    MEMORY_VECTORS = 2 + 1 + 2 + 2 + 2 + 2,
    /* an asynchronous task has a second sum while a round closes */
    SECOND_SUM_VECTORS = 2
};

fed_status fedserver_memory_of(const fedserver_task *task, const fed_layout *layout,
                               uint64_t *bytes, fed_error *err) {
    fedserver_strategy strategy;
    uint64_t update = 0;
    FED_TRY(fedserver_strategy_parse(task->strategy, &strategy, err));
    FED_TRY(fedserver_intake_most_bytes(task, layout, &update, err));
    const uint64_t vector = layout->size * sizeof(float);
    const uint64_t state =
        fedserver_strategy_state_size(&strategy, fedserver_trained(layout)) * sizeof(float);
    const uint64_t vectors =
        task->rules.staleness > 0 ? MEMORY_VECTORS + SECOND_SUM_VECTORS : (uint64_t)MEMORY_VECTORS;
    /* while a round of groups closes: their sums, and one more for what is added to them */
    const uint64_t groups = fedserver_task_groups(task);
    *bytes = (vectors + (groups > 1 ? groups + 1 : 0)) * vector + 2 * state + update;
    return FED_OK;
}

fed_status fedserver_memory_find(const fedserver_store *store, void *db, const fedserver_task *task,
                                 uint64_t *bytes, fed_error *err) {
    fed_arch arch;
    fed_error why = {0};
    fed_status status = fedserver_task_model(store, db, task, &arch, &why);
    if (status == FED_EFORMAT) {
        *bytes = 0;
        return FED_OK;
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "%s", why.text);
    }
    status = fedserver_memory_of(task, &arch.layout, bytes, err);
    fed_arch_free(&arch);
    return status;
}

bool fedserver_memory_fits(uint64_t limit, uint64_t used, uint64_t need) {
    return limit == 0 || (need <= limit && used <= limit - need);
}

void fedserver_memory_report(uint64_t limit, uint64_t used, uint64_t need, char *dst, size_t cap) {
    const double mb = 1e6;
    if (need > limit) {
        snprintf(dst, cap,
                 "it needs %.1f MB of memory, and all tasks together may take %.1f MB; start "
                 "`fedserver run` with a larger --task-memory, or cancel the task",
                 (double)need / mb, (double)limit / mb);
        return;
    }
    snprintf(dst, cap,
             "it needs %.1f MB of memory, and of the %.1f MB for all tasks the running ones take "
             "%.1f MB; it starts when a running task ends, is paused or is cancelled, or after "
             "`fedserver run` with a larger --task-memory",
             (double)need / mb, (double)limit / mb, (double)used / mb);
}
