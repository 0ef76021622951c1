/* Functions of each value by itself, and sums of rows. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/kernels/exponential.h"
#include "fedclient/train/kernels/isa.h"

/* The loops compute whole vectors: the values after the end are slack (kernels.h). */

/* A NaN stays NaN, so that the loss shows it. */
void KERNEL(relu)(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        x[i] = x[i] < 0 ? 0 : x[i];
    }
}

void KERNEL(relu_grad)(const float *y, const float *dy, float *dx, size_t n, bool add) {
    const vec zero = {0};
    for (size_t i = 0; i < n; i += LANES) {
        vec grad = vec_select(vec_load(y + i) > zero, vec_load(dy + i), zero);
        vec_store(dx + i, add ? vec_load(dx + i) + grad : grad);
    }
}

void KERNEL(tanh)(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        vec_store(y + i, vec_tanh(vec_load(x + i)));
    }
}

void KERNEL(tanh_grad)(const float *y, const float *dy, float *dx, size_t n, bool add) {
    for (size_t i = 0; i < n; i += LANES) {
        vec out = vec_load(y + i);
        vec grad = vec_load(dy + i) * (1.0F - out * out);
        vec_store(dx + i, add ? vec_load(dx + i) + grad : grad);
    }
}

void KERNEL(sigmoid)(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        vec_store(y + i, vec_sigmoid(vec_load(x + i)));
    }
}

void KERNEL(sigmoid_grad)(const float *y, const float *dy, float *dx, size_t n, bool add) {
    for (size_t i = 0; i < n; i += LANES) {
        vec out = vec_load(y + i);
        vec grad = vec_load(dy + i) * out * (1.0F - out);
        vec_store(dx + i, add ? vec_load(dx + i) + grad : grad);
    }
}

void KERNEL(dropout)(const uint8_t *keep, float scale, const float *x, float *y, size_t n,
                     bool add) {
    for (size_t i = 0; i < n; i += LANES) {
        vec factor;
        for (size_t l = 0; l < LANES; l++) {
            factor[l] = keep[i + l];
        }
        vec value = vec_load(x + i) * (factor * scale);
        vec_store(y + i, add ? vec_load(y + i) + value : value);
    }
}

void KERNEL(add)(const float *a, const float *b, float *y, size_t n, bool relu) {
    for (size_t i = 0; i < n; i += LANES) {
        vec sum = vec_load(a + i) + vec_load(b + i);
        vec_store(y + i, relu ? vec_select(sum < (vec){0}, (vec){0}, sum) : sum);
    }
}

void KERNEL(sum_rows)(const float *x, size_t rows, size_t width, float *sum) {
    for (size_t o = 0; o < width; o += LANES) {
        vec total = vec_load(sum + o);
        for (size_t r = 0; r < rows; r++) {
            total += vec_load(x + r * width + o);
        }
        vec_store(sum + o, total);
    }
}
