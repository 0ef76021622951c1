/* Gradients, drawn at random or read from files. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "gradients.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "codecs/tool/tool.h"
#include "fed/rng.h"

#define SCALE 1e-3f

/* values between the starts of two gradients */
enum { STEP = 976 };

static void fill_laplace(float *x, size_t n, fed_rng *rng) {
    for (size_t i = 0; i < n; i++) {
        float u = fed_rng_float(rng) - 0.5f;
        x[i] = copysignf(SCALE * logf(1.0f - 2.0f * fabsf(u) + 1e-7f), u);
    }
}

static void fill_gauss(float *x, size_t n, fed_rng *rng) {
    for (size_t i = 0; i < n; i += 2) {
        float radius = SCALE * sqrtf(-2.0f * logf(1.0f - fed_rng_float(rng)));
        float angle = 6.2831853f * fed_rng_float(rng);
        x[i] = radius * cosf(angle);
        x[i + 1] = radius * sinf(angle);
    }
}

void gradients_draw(gradients *g, size_t n, bool dense) {
    const size_t all = n + n % 2 + (GRADIENTS_MAX - 1) * STEP;
    const uint32_t dims[] = {(uint32_t)n};
    *g = (gradients){.count = GRADIENTS_MAX, .drawn = bench_alloc(all * sizeof *g->drawn)};
    fed_layout_init(&g->layout);
    bench_require(fed_layout_add(&g->layout, "values", 1, dims), "values");
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 3);
    (dense ? fill_gauss : fill_laplace)(g->drawn, all, &rng);
    for (size_t k = 0; k < g->count; k++) {
        g->g[k] = g->drawn + k * STEP;
    }
}

void gradients_read(gradients *g, const char *const *paths, size_t count) {
    fed_error err = {.text = ""};
    *g = (gradients){.count = count};
    for (size_t k = 0; k < count; k++) {
        fed_model model;
        bench_require(tool_read_tensors(paths[k], &model, &err), err.text);
        if (k == 0) {
            g->layout = model.layout;
        } else {
            bench_require(fed_layout_match(&g->layout, &model.layout, &err), err.text);
            fed_layout_free(&model.layout);
        }
        g->g[k] = model.values;
    }
}

void gradients_free(gradients *g) {
    for (size_t k = 0; k < g->count && g->drawn == NULL; k++) {
        free((void *)g->g[k]);
    }
    free(g->drawn);
    fed_layout_free(&g->layout);
}
