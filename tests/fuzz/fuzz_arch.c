/* Fuzz model descriptions: each accepted text must give a valid net. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "fed/private_layers.h"

static uint64_t size_of(fed_shape s) {
    return (uint64_t)s.c * s.h * s.w;
}

/* Inputs of a layer must come before it, and only the last layer is no input of another. */
static void check_layers(const fed_arch *arch) {
    if (fed_arch_is_opaque(arch)) {
        return;
    }
    static bool read[FED_ARCH_LAYERS + 1];
    memset(read, 0, sizeof read);
    require(arch->layer_count > 0 && arch->layer_count <= FED_ARCH_LAYERS);
    for (size_t l = 0; l < arch->layer_count; l++) {
        const fed_layer *layer = &arch->layers[l];
        require(layer->inputs > 0 && layer->inputs <= FED_LAYER_INPUTS);
        for (uint32_t i = 0; i < layer->inputs; i++) {
            require(layer->input[i] <= l);
            read[layer->input[i]] = true;
        }
        fed_shape in = layer->input[0] == 0 ? arch->input : arch->layers[layer->input[0] - 1].out;
        require(memcmp(&in, &layer->in, sizeof in) == 0);
        require(size_of(layer->out) > 0 && size_of(layer->out) <= UINT64_C(1) << 28);
        require(layer->pad <= layer->kh / 2 && layer->pad <= layer->kw / 2);
    }
    for (size_t value = 0; value < arch->layer_count; value++) {
        require(read[value]);
    }
}

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static void check_tensors(const fed_arch *arch) {
    size_t at = 0;
    for (size_t i = 0; i < arch->layout.count; i++) {
        const fed_tensor *tensor = &arch->layout.tensors[i];
        require(tensor->offset == at && tensor->size > 0);
        bool statistics = fed_arch_is_opaque(arch)
                              ? i >= arch->layout.count - arch->layout.statistics
                              : ends_with(tensor->name, ".running_mean") ||
                                    ends_with(tensor->name, ".running_var");
        require(statistics == (at >= arch->trained));
        at += tensor->size;
    }
    require(at == arch->layout.size && at <= UINT64_C(1) << 31);
    require(arch->trained > 0 && arch->trained <= at);
    for (size_t l = 0; l < arch->layer_count; l++) {
        char name[FED_TENSOR_NAME];
        fed_arch_layer_name(arch, l, name, sizeof name);
        require(name[0] != '\0');
    }
}

static void check_text(const fed_arch *arch) {
    fed_arch again;
    fed_error err = {FED_OK, ""};
    require(strlen(arch->text) < FED_ARCH_LONG);
    require(fed_arch_parse(arch->text, &again, &err) == FED_OK);
    require(strcmp(arch->text, again.text) == 0);
    require(fed_layout_match(&arch->layout, &again.layout, &err) == FED_OK);
    fed_arch_free(&again);
}

/* What travels and what stays are all tensors, each once and in the model's order. */
static void check_private(const fed_arch *arch) {
    static const char *const lists[] = {"head", "bn", "1", "1-2,head"};
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        fed_private_layers split;
        fed_error err = {FED_OK, ""};
        if (fed_private_layers_split(arch, lists[k], &split, &err) != FED_OK) {
            require(err.text[0] != '\0');
            continue;
        }
        size_t at = 0, stays = 0;
        for (size_t i = 0; i < arch->layout.count; i++) {
            const fed_tensor *tensor = &arch->layout.tensors[i];
            stays += split.stays[i] != 0 ? tensor->size : 0;
            require(split.stays[i] != 0 ||
                    strcmp(split.shared.tensors[at++].name, tensor->name) == 0);
        }
        require(at == split.shared.count && stays == split.own);
        require(split.own + split.shared.size == arch->layout.size);
        require(split.trained > 0 && split.trained <= split.shared.size);
        fed_private_layers_free(&split);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    char *text = fuzz_allocate(len + 1);
    memcpy(text, data, len);
    text[len] = '\0';
    fed_arch arch;
    fed_error err = {FED_OK, ""};
    fed_status status = fed_arch_parse(text, &arch, &err);
    require(status == err.status);
    if (status == FED_OK) {
        check_layers(&arch);
        check_tensors(&arch);
        check_text(&arch);
        check_private(&arch);
        fed_arch_free(&arch);
    }
    free(text);
    return 0;
}
