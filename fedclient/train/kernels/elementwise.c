/* Optimizer steps and ReLU: plain loops, which both compilers turn into vectors by themselves. */
#include <math.h>

#include "fedclient/train/kernels/isa.h"

void KERNEL(sgd)(float *restrict w, const float *restrict g, size_t n, float rate) {
    for (size_t i = 0; i < n; i++) {
        w[i] -= rate * g[i];
    }
}

void KERNEL(momentum)(float *restrict w, float *restrict v, const float *restrict g, size_t n,
                      float rate, float keep) {
    for (size_t i = 0; i < n; i++) {
        v[i] = keep * v[i] + g[i];
        w[i] -= rate * v[i];
    }
}

void KERNEL(adam)(float *restrict w, float *restrict m, float *restrict v, const float *restrict g,
                  size_t n, const fedtrain_adam *a) {
    const fedtrain_adam s = *a;
    const float fresh1 = 1.0F - s.beta1, fresh2 = 1.0F - s.beta2;
    for (size_t i = 0; i < n; i++) {
        m[i] = s.beta1 * m[i] + fresh1 * g[i];
        v[i] = s.beta2 * v[i] + fresh2 * (g[i] * g[i]);
        w[i] -= s.rate * m[i] / (sqrtf(v[i]) * s.scale + s.epsilon);
    }
}

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
