/* tanh, the logistic function and dropout. Whole vectors: what is behind the end is slack. */
#include "fedclient/train/kernels/exponential.h"
#include "fedclient/train/kernels/isa.h"

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
