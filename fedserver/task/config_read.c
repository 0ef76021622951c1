/* Reads a task's file, and makes the model that the task begins with. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fed/arch.h"
#include "fed/checkpoint.h"
#include "fed/file.h"
#include "fedserver/task/config.h"

static fed_status load_initial(const fedserver_config *config, const fed_arch *arch, float *values,
                               fed_error *err) {
    fed_checkpoint *file = NULL;
    fed_error why = {0};
    fed_status status = fed_checkpoint_open(config->initial, &file, &why);
    if (status == FED_OK) {
        status = fed_checkpoint_read(file, &arch->layout, values, &why);
        fed_checkpoint_close(file);
    }
    return status == FED_OK
               ? FED_OK
               : fed_fail(
                     err, status,
                     "%s; key \"initial\" takes a safetensors file with the names and shapes of "
                     "key \"model\", and finite numbers",
                     why.text);
}

fed_status fedserver_config_values(const fedserver_config *config, float **values, size_t *size,
                                   fed_error *err) {
    fed_arch arch;
    FED_TRY(fed_arch_parse(config->task.wire.model, &arch, err));
    size_t n = arch.layout.size;
    float *made = malloc(n * sizeof *made);
    fed_status status = FED_OK;
    if (made == NULL) {
        status = fed_fail(err, FED_ENOMEM, "out of memory for %zu values", n);
    } else if (config->initial[0] != '\0') {
        status = load_initial(config, &arch, made, err);
    } else {
        fed_arch_init_values(&arch, config->task.wire.seed, made);
    }
    fed_arch_free(&arch);
    if (status != FED_OK) {
        free(made);
        return status;
    }
    *values = made;
    *size = n;
    return FED_OK;
}

fed_status fedserver_config_read(const char *path, fedserver_config *config, fed_error *err) {
    uint8_t *text;
    size_t len;
    FED_TRY(fed_file_read(path, 1 << 20, &text, &len, err));
    fed_status status = fedserver_config_parse(path, (const char *)text, len, config, err);
    free(text);
    return status;
}
