/* Trains a model, and writes each step's results for parity.py. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/arch.h"
#include "fed/checkpoint.h"
#include "fed/rng.h"
#include "fedclient/train/backends/fast/fast_impl.h"
#include "fedclient/train/net_impl.h"
#include "fedtrain/optimizer.h"

/*
 *     parity_dump MODEL BATCH STEPS DIRECTORY [OPTIMIZER ...]
 *     parity_dump                      the models' names
 *
 * Writes safetensors files. Those that are not a model have one flat tensor "values":
 *
 *   start               the initial weights
 *   x, label            STEPS batches; tokens as floats
 *   loss, gradient      of the first batch
 *   K.losses            with the K-th optimizer: the loss at each step,
 *   K.end               the model after the last one,
 *   K.scores            and its scores of the first batch, without training
 *
 * The choices of the layers are plain bytes, layer after layer: for the first gradient in
 * gradient.choices, for each step in K.choices. Those of a ReLU are uint8[batch, h, w, c], 1 where
 * it passes the value. Those of a max-pool are int32[batch, h, w, c], the position y * width + x of
 * the chosen value.
 *
 * Dropout is off, because two engines would drop different values.
 */

typedef struct dump {
    const char *directory;
    fed_arch arch;
    fedtrain_net *net;
    size_t batch, steps, sample, labels;
    float *start, *params, *grad, *state, *x, *losses, *scores;
    uint32_t *label;
} dump;

static void must(fed_status status, const fed_error *err) {
    if (status != FED_OK) {
        fprintf(stderr, "parity_dump: %s: %s\n", fed_status_name(status), err->text);
        exit(EXIT_FAILURE);
    }
}

static float *floats(size_t n) {
    float *memory = calloc(n, sizeof *memory);
    const fed_error err = {.text = "memory"};
    must(memory != NULL ? FED_OK : FED_ENOMEM, &err);
    return memory;
}

static void save_model(const dump *d, const char *what, const char *of, const fed_layout *layout,
                       const float *values) {
    char path[512];
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/%s%s.safetensors", d->directory, what, of);
    must(fed_checkpoint_save(path, layout, values, NULL, &err), &err);
}

static void save_values(const dump *d, const char *what, const char *of, const float *values,
                        size_t n) {
    uint32_t dims[1] = {(uint32_t)n};
    fed_layout layout;
    fed_error err = {0};
    fed_layout_init(&layout);
    must(fed_layout_add(&layout, "values", 1, dims), &err);
    save_model(d, what, of, &layout, values);
    fed_layout_free(&layout);
}

static FILE *open_choices(const dump *d, const char *of) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.choices", d->directory, of);
    FILE *file = fopen(path, "wb");
    const fed_error err = {.text = "can't write the choices"};
    must(file != NULL ? FED_OK : FED_EIO, &err);
    return file;
}

static void close_choices(FILE *file) {
    const fed_error err = {.text = "can't write the choices"};
    int failed = ferror(file);
    must(fclose(file) == 0 && !failed ? FED_OK : FED_EIO, &err);
}

/* Write the choices, derived from the layers' outputs. */
static void add_choices(const dump *d, FILE *file) {
    const fast_net *f = d->net->work;
    for (size_t l = 0; l < d->arch.layer_count; l++) {
        const fast_value *out = &f->values[l + 1];
        const fed_layer *layer = &d->arch.layers[l];
        size_t n = f->batch * out->size;
        for (size_t i = 0; layer->kind == FED_LAYER_RELU && i < n; i++) {
            putc(out->data[i] > 0, file);
        }
        if (layer->kind == FED_LAYER_MAXPOOL && layer->kh * layer->kw > 1) {
            const fast_pool *pool = f->nodes[l].own;
            fwrite(pool->winner, sizeof *pool->winner, n, file);
        }
    }
}

static fedtrain_batch batch_of(const dump *d, size_t step) {
    return (fedtrain_batch){.size = d->batch,
                            .x = d->x + step * d->batch * d->sample,
                            .label = d->label + step * d->labels};
}

/* Raise the biases of batch normalizations, so that more values pass the ReLUs, and a deep net
 * amplifies rounding less. */
static void raise_norms(dump *d) {
    for (size_t l = 0; l < d->arch.layer_count; l++) {
        const fed_layer *layer = &d->arch.layers[l];
        const fed_tensor *bias = &d->arch.layout.tensors[layer->bias];
        for (size_t i = 0; layer->kind == FED_LAYER_BATCHNORM && i < bias->size; i++) {
            d->start[bias->offset + i] += 0.5F;
        }
    }
}

/* Make initial weights, none of which is exactly 0 or 1. */
static void make_start(dump *d) {
    fed_rng rng;
    fed_rng_init(&rng, 11, 1, 1);
    fed_arch_init_values(&d->arch, 1, d->start);
    for (size_t i = 0; i < d->arch.layout.size; i++) {
        d->start[i] += 0.01F * (fed_rng_float(&rng) - 0.5F);
    }
    raise_norms(d);
    save_model(d, "start", "", &d->arch.layout, d->start);
}

static void make_batches(dump *d) {
    size_t values = d->steps * d->batch * d->sample, labels = d->steps * d->labels;
    float *as_floats = floats(labels);
    fed_rng rng;
    fed_rng_init(&rng, 12, 1, 1);
    for (size_t i = 0; i < values; i++) {
        d->x[i] = d->arch.words > 0 ? (float)fed_rng_below(&rng, d->arch.words)
                                    : 2 * fed_rng_float(&rng) - 1;
    }
    for (size_t i = 0; i < labels; i++) {
        d->label[i] = fed_rng_below(&rng, d->arch.classes);
        as_floats[i] = (float)d->label[i];
    }
    save_values(d, "x", "", d->x, values);
    save_values(d, "label", "", as_floats, labels);
    free(as_floats);
}

static void dump_gradient(dump *d) {
    fed_layout trained = {.tensors = d->arch.layout.tensors, .size = d->arch.trained};
    while (trained.count < d->arch.layout.count &&
           trained.tensors[trained.count].offset < d->arch.trained) {
        trained.count++;
    }
    fedtrain_batch batch = batch_of(d, 0);
    float loss;
    fed_error err = {0};
    must(fedtrain_net_gradient(d->net, d->start, &batch, d->grad, &loss, &err), &err);
    FILE *choices = open_choices(d, "gradient");
    add_choices(d, choices);
    close_choices(choices);
    save_model(d, "gradient", "", &trained, d->grad);
    save_values(d, "loss", "", &loss, 1);
}

static void dump_training(dump *d, const char *spec, const char *name) {
    fed_optimizer rule;
    fed_error err = {0};
    must(fed_optimizer_parse(spec, 0.01F, &rule, &err), &err);
    memset(d->state, 0, fedtrain_optimizer_state_size(&rule, d->arch.trained) * sizeof *d->state);
    memcpy(d->params, d->start, d->arch.layout.size * sizeof *d->params);
    fedtrain_net_forget(d->net);
    FILE *choices = open_choices(d, name);
    for (size_t s = 0; s < d->steps; s++) {
        fedtrain_batch batch = batch_of(d, s);
        must(fedtrain_net_step(d->net, &rule, d->params, d->state, &batch, &d->losses[s], &err),
             &err);
        add_choices(d, choices);
    }
    close_choices(choices);
    fedtrain_batch first = batch_of(d, 0);
    fedtrain_net_forget(d->net);
    must(fedtrain_net_forward(d->net, d->params, &first, d->scores, &err), &err);
    save_values(d, name, ".losses", d->losses, d->steps);
    save_model(d, name, ".end", &d->arch.layout, d->params);
    save_values(d, name, ".scores", d->scores, d->labels * d->arch.classes);
}

static void start(dump *d, const char *model) {
    fed_error err = {0};
    must(fed_arch_parse(model, &d->arch, &err), &err);
    for (size_t l = 0; l < d->arch.layer_count; l++) {
        d->arch.layers[l].p = 0;
    }
    must(fedtrain_net_new(&d->arch, d->batch, NULL, &d->net, &err), &err);
    size_t n = d->arch.layout.size;
    d->sample = (size_t)d->arch.input.c * d->arch.input.h * d->arch.input.w;
    d->labels = d->batch * d->arch.positions;
    d->start = floats(n);
    d->params = floats(n);
    d->grad = floats(n);
    d->state = floats(2 * n + 1);
    d->x = floats(d->steps * d->batch * d->sample);
    d->losses = floats(d->steps);
    d->scores = floats(d->labels * d->arch.classes);
    d->label = calloc(d->steps * d->labels, sizeof *d->label);
    must(d->label != NULL ? FED_OK : FED_ENOMEM, &err);
}

static void finish(dump *d) {
    fedtrain_net_free(d->net);
    free(d->start);
    free(d->params);
    free(d->grad);
    free(d->state);
    free(d->x);
    free(d->losses);
    free(d->scores);
    free(d->label);
    fed_arch_free(&d->arch);
}

int main(int argc, char **argv) {
    if (argc == 1) {
        for (size_t k = 0; fed_arch_name(k) != NULL; k++) {
            printf("%s\n", fed_arch_name(k));
        }
        return 0;
    }
    dump d = {0};
    d.batch = argc > 4 ? strtoul(argv[2], NULL, 10) : 0;
    d.steps = argc > 4 ? strtoul(argv[3], NULL, 10) : 0;
    if (d.batch == 0 || d.steps == 0) {
        fprintf(stderr, "parity_dump MODEL BATCH STEPS DIRECTORY [OPTIMIZER ...]\n");
        return EXIT_FAILURE;
    }
    d.directory = argv[4];
    start(&d, argv[1]);
    make_start(&d);
    make_batches(&d);
    dump_gradient(&d);
    for (int k = 5; k < argc; k++) {
        char name[16];
        snprintf(name, sizeof name, "%d", k - 5);
        dump_training(&d, argv[k], name);
    }
    finish(&d);
    return 0;
}
