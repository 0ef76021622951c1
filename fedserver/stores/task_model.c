/* Makes the model of a stored task, from the task's text or from its layout. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/task_model.h"

#include <stdlib.h>

#include "fed/layout_reference.h"
#include "fed/private_layers.h"

static fed_status whole_model(const fedserver_store *store, void *db, const fedserver_task *task,
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

fed_status fedserver_task_model(const fedserver_store *store, void *db, const fedserver_task *task,
                                fed_arch *arch, fed_error *err) {
    FED_TRY(whole_model(store, db, task, arch, err));
    const fed_status status = fed_arch_share(arch, task->wire.private_layers, err);
    if (status != FED_OK) {
        fed_arch_free(arch);
    } else if (task->wire.codec_variates[0] != '\0') {
        fed_arch_code_variates(arch);
    }
    return status;
}

fed_status fedserver_task_private(const fedserver_store *store, void *db,
                                  const fedserver_task *task, fed_writer *names, uint64_t *values,
                                  fed_error *err) {
    fed_arch arch;
    fed_private_layers split;
    *values = 0;
    if (task->wire.private_layers[0] == '\0') {
        return FED_OK;
    }
    FED_TRY(whole_model(store, db, task, &arch, err));
    fed_status status = fed_private_layers_split(&arch, task->wire.private_layers, &split, err);
    if (status == FED_OK) {
        *values = split.own;
        for (size_t k = 0, n = 0; k < arch.layout.count && names != NULL; k++) {
            if (split.stays[k] != 0) {
                fed_write_printf(names, "%s%s", n++ > 0 ? " " : "", arch.layout.tensors[k].name);
            }
        }
        fed_private_layers_free(&split);
        status = names != NULL ? names->status : FED_OK;
    }
    fed_arch_free(&arch);
    return status;
}
