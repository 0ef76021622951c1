/* fedtrain's weights: make them, or read them from a file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <sys/stat.h>

#include "fedclient/apps/fedtrain.h"

static fed_status fail_memory(const app_weights *w, fed_error *err) {
    return fed_fail(err, FED_ENOMEM, "out of memory for the %zu parameters of \"%.200s\"",
                    w->arch.layout.size, w->arch.text);
}

static fed_status make_layout(app_weights *w, size_t state_size) {
    for (size_t i = 0; i < w->arch.layout.count; i++) {
        const fed_tensor *tensor = &w->arch.layout.tensors[i];
        FED_TRY(fed_layout_append(&w->layout, tensor->name, tensor->rank, tensor->dims));
    }
    uint32_t dims[] = {(uint32_t)state_size};
    FED_REQUIRE(state_size <= UINT32_MAX, FED_ERANGE);
    return state_size > 0 ? fed_layout_append(&w->layout, "optimizer.state", 1, dims) : FED_OK;
}

fed_status app_weights_new(const char *model, const fed_optimizer *optimizer, uint32_t seed,
                           app_weights *w, fed_error *err) {
    *w = (app_weights){0};
    FED_TRY(fed_arch_load(model, &w->arch, err));
    size_t state_size =
        optimizer != NULL ? fedtrain_optimizer_state_size(optimizer, w->arch.trained) : 0;
    fed_layout_init(&w->layout);
    if (make_layout(w, state_size) == FED_OK) {
        w->values = calloc(w->layout.size + 1, sizeof *w->values);
    }
    if (w->values == NULL) {
        fed_status status = fail_memory(w, err);
        app_weights_free(w);
        return status;
    }
    w->state = w->values + w->arch.layout.size;
    fed_arch_init_values(&w->arch, seed, w->values);
    return FED_OK;
}

fed_status app_weights_init(const app_options *o, app_weights *w, fed_error *err) {
    if (o->init == NULL) {
        return FED_OK;
    }
    fed_checkpoint *file = NULL;
    FED_TRY(fed_checkpoint_open(o->init, &file, err));
    fed_status status = fed_checkpoint_read(file, &w->arch.layout, w->values, err);
    fed_checkpoint_close(file);
    return status;
}

static fed_status read_weights(const app_options *o, app_weights *w, const fed_checkpoint *file,
                               fed_error *err) {
    const char *model = o->model != NULL ? o->model : fed_checkpoint_note(file, "model");
    if (model == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "--weights %s does not name its model: give the model with --model",
                        o->weights);
    }
    FED_TRY(app_weights_new(model, NULL, 0, w, err));
    fed_status status = fed_checkpoint_read(file, &w->arch.layout, w->values, err);
    if (status != FED_OK) {
        app_weights_free(w);
    }
    return status;
}

fed_status app_weights_open(const app_options *o, app_weights *w, fed_checkpoint **file,
                            fed_error *err) {
    if (o->weights == NULL) {
        return fed_fail(err, FED_EINVAL, "--weights FILE is missing: give a safetensors file");
    }
    fed_checkpoint *opened = NULL;
    FED_TRY(fed_checkpoint_open(o->weights, &opened, err));
    fed_status status = read_weights(o, w, opened, err);
    if (status != FED_OK) {
        fed_checkpoint_close(opened);
        return status;
    }
    *file = opened;
    return FED_OK;
}

void app_weights_free(app_weights *w) {
    fed_arch_free(&w->arch);
    fed_layout_free(&w->layout);
    free(w->values);
    *w = (app_weights){0};
}

fed_status app_net_new(const app_options *o, const fed_arch *arch, fedtrain_net **net,
                       fed_error *err) {
    fed_error why = {0};
    fed_status status = fedtrain_net_new(arch, o->batch, o->backend, net, &why);
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status, "can't make a net of \"%.200s\": %s", arch->text, why.text);
}

bool app_is_stream(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

fed_status app_checkpoint_absent(const char *path, fed_error *err) {
    if (app_is_stream(path)) {
        return FED_OK;
    }
    fed_checkpoint *file = NULL;
    fed_error why = {0};
    const fed_status status = fed_checkpoint_open(path, &file, &why);
    fed_checkpoint_close(file);
    return status == FED_ENOTFOUND ? FED_OK
                                   : fed_fail(err, FED_EEXIST,
                                              "--checkpoint %s exists already: give --resume to go "
                                              "on from it, or remove it, or name another file",
                                              path);
}
