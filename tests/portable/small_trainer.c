/* A small program that trains, whose code size deploy/client-memory.py measures. It fails unless
 * the loss falls as expected. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "fed/rng.h"
#include "fedtrain/train.h"

static const char MODEL[] = "input 1x28x28 | conv 20 5x5 | maxpool 2 | conv 50 5x5 | maxpool 2 "
                            "| dense 500 | relu | dense 10";

enum { SIDE = 28, PIXELS = SIDE * SIDE, SAMPLES = 40, CLASSES = 10, BATCH = 8, STEPS = 15 };

/* The first and last loss of the reference backend, in thousandths. */
enum { FIRST = 2249, LAST = 658 };

/* Draw pictures of noise with a bright bar, whose row tells the class. */
static void draw(uint8_t pixel[SAMPLES * PIXELS], uint8_t label[SAMPLES]) {
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 3);
    for (int i = 0; i < SAMPLES * PIXELS; i++) {
        int sample = i / PIXELS, row = i % PIXELS / SIDE;
        label[sample] = (uint8_t)(sample % CLASSES);
        pixel[i] = (uint8_t)(fed_rng_below(&rng, 64) + (row / 2 == label[sample] ? 190 : 0));
    }
}

static bool keep_loss(void *user, size_t step, float loss) {
    float *losses = user;
    losses[step] = loss;
    return true;
}

static fed_status train(const fed_arch *arch, fedtrain_net *net, float losses[STEPS],
                        fed_error *err) {
    static uint8_t pixel[SAMPLES * PIXELS], label[SAMPLES];
    static uint32_t all[SAMPLES];
    draw(pixel, label);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        all[i] = i;
    }
    fedtrain_dataset set;
    FED_TRY(fedtrain_dataset_wrap(pixel, label, SAMPLES, (fed_shape){1, SIDE, SIDE}, &set));
    const fedtrain_shard shard = {.index = all, .count = SAMPLES};
    fedtrain_job job = {.net = net,
                        .set = &set,
                        .shard = &shard,
                        .steps = STEPS,
                        .batch = BATCH,
                        .after_step = keep_loss,
                        .user = losses};
    float *params = malloc(arch->layout.size * sizeof *params), loss = 0;
    fed_status status = FED_ENOMEM;
    if (params != NULL) {
        fed_arch_init_values(arch, 1, params);
        status = fed_optimizer_parse("sgd:lr=0.05", 0, &job.optimizer, err);
    }
    if (status == FED_OK) {
        status = fedtrain_run(&job, params, NULL, &loss, err);
    }
    free(params);
    fedtrain_dataset_free(&set);
    return status;
}

int main(void) {
    fed_error err = {0};
    fed_arch arch = {0};
    fedtrain_net *net = NULL;
    float losses[STEPS] = {0};
    fed_status status = fed_arch_parse(MODEL, &arch, &err);
    if (status == FED_OK) {
        status = fedtrain_net_new(&arch, BATCH, NULL, &net, &err);
    }
    if (status == FED_OK) {
        status = train(&arch, net, losses, &err);
    }
    fedtrain_net_free(net);
    fed_arch_free(&arch);
    int first = (int)(1000 * losses[0]), last = (int)(1000 * losses[STEPS - 1]);
    printf("small trainer: %s; in %d steps the loss fell from %d to %d thousandths\n",
           status == FED_OK ? "trained" : err.text, STEPS, first, last);
    return status == FED_OK && abs(first - FIRST) <= 1 && abs(last - LAST) <= 10 ? EXIT_SUCCESS
                                                                                 : EXIT_FAILURE;
}
