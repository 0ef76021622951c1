/* ReLU: plain loops, which both compilers turn into vectors by themselves. */
#include "fedclient/train/kernels/isa.h"

/* A NaN stays one, so that the loss shows it. */
void KERNEL(relu)(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        x[i] = x[i] < 0 ? 0 : x[i];
    }
}

void KERNEL(relu_grad)(const float *restrict y, float *restrict dy, size_t n) {
    for (size_t i = 0; i < n; i++) {
        dy[i] = y[i] > 0 ? dy[i] : 0;
    }
}
