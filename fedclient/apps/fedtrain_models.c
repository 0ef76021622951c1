/* fedtrain models: each model's input, number of parameters, and memory for training. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "fedclient/apps/fedtrain.h"

static double mb(size_t bytes) {
    return 1e-6 * (double)bytes;
}

static void print_input(const fed_arch *arch) {
    char text[40];
    if (fed_arch_is_opaque(arch)) {
        snprintf(text, sizeof text, "no layers");
    } else if (arch->words > 0) {
        snprintf(text, sizeof text, "%u of %u words", arch->positions, arch->words);
    } else if (arch->input.h == 1 && arch->input.w == 1) {
        snprintf(text, sizeof text, "%u", arch->input.c);
    } else {
        snprintf(text, sizeof text, "%ux%ux%u", arch->input.c, arch->input.h, arch->input.w);
    }
    printf(" %17s", text);
}

static void print_memory(const fed_arch *arch, const fedtrain_net *net,
                         const fed_optimizer *optimizer) {
    fedtrain_memory m = fedtrain_net_memory(net);
    size_t weights = arch->layout.size * sizeof(float);
    size_t state = fedtrain_optimizer_state_size(optimizer, arch->trained) * sizeof(float);
    printf(" %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %9.2f\n", mb(weights), mb(state), mb(m.parameters),
           mb(m.activations), mb(m.gradients), mb(m.batch + m.workspace),
           mb(m.total + weights + state));
}

static fed_status print_model(const app_options *o, const fed_optimizer *optimizer,
                              const char *name, fed_error *err) {
    fed_arch arch = {0};
    fedtrain_net *net = NULL;
    fed_error why = {0};
    FED_TRY(fed_arch_load(name, &arch, err));
    printf("%-18.18s", name);
    print_input(&arch);
    printf(" %11zu", arch.trained);
    if (app_net_new(o, &arch, &net, &why) == FED_OK) {
        print_memory(&arch, net, optimizer);
    } else {
        printf("  %s\n",
               fed_arch_is_opaque(&arch) ? "not trained here" : fed_status_text(why.status));
    }
    fflush(stdout);
    fedtrain_net_free(net);
    fed_arch_free(&arch);
    return FED_OK;
}

fed_status app_models(const app_options *o, fed_error *err) {
    fed_optimizer optimizer;
    FED_TRY(fed_optimizer_parse(o->optimizer, 1e-3F, &optimizer, err));
    printf("Memory in MB (10^6 bytes) to train with a batch of %u and %s.\n\n", o->batch,
           o->optimizer);
    printf("%-18s %17s %11s %8s %8s %8s %8s %8s %8s %9s\n", "model", "input", "parameters",
           "weights", "optim.", "gradient", "activ.", "their g.", "other", "together");
    for (size_t i = 0; i < o->word_count; i++) {
        FED_TRY(print_model(o, &optimizer, o->words[i], err));
    }
    const char *name;
    for (size_t k = 0; o->word_count == 0 && (name = fed_arch_name(k)) != NULL; k++) {
        FED_TRY(print_model(o, &optimizer, name, err));
    }
    return FED_OK;
}
