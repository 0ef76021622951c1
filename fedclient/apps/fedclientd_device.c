/* Find what a device computes on, before it enrols, so that its log can name the GPU. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "fed/gpu.h"
#include "fedclient/apps/fedclientd.h"

void fedclientd_computes_on(const fed_gpu_info *info, char text[FEDCLIENTD_COMPUTES]) {
    (void)snprintf(text, FEDCLIENTD_COMPUTES, "%s %s", info->name, info->card);
}

fed_status fedclientd_find_device(const workshop_settings *work, char text[FEDCLIENTD_COMPUTES],
                                  fed_error *err) {
    text[0] = '\0';
    if (work->backend == NULL || !fed_gpu_is_name(work->backend)) {
        return FED_OK;
    }
    if (work->group != NULL) {
        /* The workers open the GPU: after a process has opened a GPU, it can't fork workers that
         * use GPUs. */
        (void)snprintf(text, FEDCLIENTD_COMPUTES, "%s", work->backend);
        return FED_OK;
    }
    fed_gpu *gpu = NULL;
    fed_error why = {0};
    const fed_status status = fed_gpu_open(work->backend, NULL, &gpu, &why);
    if (status != FED_OK) {
        return fed_fail(err, status, "--device %.20s: %s", work->backend, why.text);
    }
    fedclientd_computes_on(fed_gpu_info_of(gpu), text);
    fed_gpu_close(gpu);
    return FED_OK;
}
