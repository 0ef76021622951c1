/* Makes the model of a stored task, from the task's text or from its layout. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/task_model.h"

#include <stdlib.h>

#include "fed/layout_reference.h"

fed_status fedserver_task_model(const fedserver_store *store, void *db, const fedserver_task *task,
                                fed_arch *arch, fed_error *err) {
    if (!fed_layout_is_reference(task->wire.model)) {
        return fed_arch_parse(task->wire.model, arch, err);
    }
    void *layout = NULL;
    size_t len = 0;
    fed_error why = {0};
    fed_status status = store->layout_find(db, task->wire.id, &layout, &len, &why);
    if (status == FED_OK) {
        status = fed_layout_resolve(task->wire.model, layout, len, arch, &why);
        free(layout);
    }
    if (status == FED_OK) {
        return FED_OK;
    }
    const bool damaged = status == FED_EFORMAT || status == FED_ENOTFOUND;
    return fed_fail(err, damaged ? FED_EFORMAT : status, "task %llu: %s",
                    (unsigned long long)task->wire.id, why.text);
}
