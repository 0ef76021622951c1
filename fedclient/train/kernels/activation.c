/* tanh and the logistic function, forward and backward. */
#include "fedclient/train/kernels/exponential.h"
#include "fedclient/train/kernels/isa.h"

void KERNEL(tanh)(const float *x, float *y, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec_store(y + i, vec_tanh(vec_load(x + i)));
    }
    vec_store_first(y + i, vec_tanh(vec_load_first(x + i, n - i)), n - i);
}

void KERNEL(sigmoid)(const float *x, float *y, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec_store(y + i, vec_sigmoid(vec_load(x + i)));
    }
    vec_store_first(y + i, vec_sigmoid(vec_load_first(x + i, n - i)), n - i);
}

void KERNEL(tanh_grad)(const float *restrict y, float *restrict dy, size_t n) {
    for (size_t i = 0; i < n; i++) {
        dy[i] *= 1.0F - y[i] * y[i];
    }
}

void KERNEL(sigmoid_grad)(const float *restrict y, float *restrict dy, size_t n) {
    for (size_t i = 0; i < n; i++) {
        dy[i] *= y[i] * (1.0F - y[i]);
    }
}
