/* Fuzz checkpoints: each accepted file must have a valid model. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "fed/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fed_model model;
    fed_error err = {FED_OK, ""};
    if (fed_checkpoint_parse("fuzz", data, size, &model, &err) != FED_OK) {
        return 0;
    }
    size_t at = 0;
    for (size_t i = 0; i < model.layout.count; i++) {
        require(model.layout.tensors[i].offset == at);
        at += model.layout.tensors[i].size;
    }
    require(at == model.layout.size && at * 2 <= size);
    require(fed_first_nonfinite(model.values, at) == at);
    fed_model_free(&model);
    return 0;
}
