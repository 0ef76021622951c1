/* Optimizer steps: plain loops, which gcc and clang vectorize. They are compiled without fused
 * multiply-add, so that values are rounded alike in vectors and in a loop's tail: the bits are the
 * same for one call or several, and on every machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>

#include "fedclient/train/kernels/isa.h"

/* The kinds of change to a gradient before the optimizer's rule. The loops are compiled for each
 * kind separately, so that simple kinds stay fast. */
typedef enum shape { PLAIN, SCALED, SHAPED, PROXIMAL } shape;

KERNEL_INLINE shape shape_of(const fedtrain_step *s, const float *w0) {
    const bool scaled = !FED_SMALL && s->share != 1.0F;
    return w0 != NULL ? PROXIMAL : s->shaped ? SHAPED : scaled ? SCALED : PLAIN;
}

/* The gradient times s->share, plus the proximal term, clipped to the limit. NaN stays NaN. */
KERNEL_INLINE float clipped(const fedtrain_step *s, shape kind, float w, const float *w0, size_t i,
                            float g) {
    g = FED_SMALL || kind == PLAIN ? g : g * s->share;
    g = kind == PROXIMAL ? g + s->mu * (w - w0[i]) : g;
    g = g > s->limit ? s->limit : g;
    return g < -s->limit ? -s->limit : g;
}

KERNEL_INLINE float shaped(const fedtrain_step *s, shape kind, float w, const float *w0, size_t i,
                           float g) {
    if (kind == PLAIN || kind == SCALED) {
        return kind == PLAIN ? g : g * s->share;
    }
    return clipped(s, kind, w, w0, i, g) * s->scale + s->decay * w;
}

KERNEL_INLINE void sgd(float *restrict w, const float *restrict w0, const float *restrict g,
                       size_t n, fedtrain_step s, shape kind) {
    for (size_t i = 0; i < n; i++) {
        w[i] -= s.rate * shaped(&s, kind, w[i], w0, i, g[i]);
    }
}

void KERNEL(sgd)(float *w, const float *w0, const float *g, size_t n, const fedtrain_step *s) {
    switch (shape_of(s, w0)) {
    case PLAIN:
        sgd(w, w0, g, n, *s, PLAIN);
        break;
    case SCALED:
        sgd(w, w0, g, n, *s, SCALED);
        break;
    case SHAPED:
        sgd(w, w0, g, n, *s, SHAPED);
        break;
    case PROXIMAL:
        sgd(w, w0, g, n, *s, PROXIMAL);
        break;
    }
}

KERNEL_INLINE void momentum(float *restrict w, float *restrict v, const float *restrict w0,
                            const float *restrict g, size_t n, fedtrain_step s, shape kind) {
    for (size_t i = 0; i < n; i++) {
        float slope = shaped(&s, kind, w[i], w0, i, g[i]);
        v[i] = s.beta1 * v[i] + slope;
        w[i] -= s.rate * (s.nesterov ? slope + s.beta1 * v[i] : v[i]);
    }
}

void KERNEL(momentum)(float *w, float *v, const float *w0, const float *g, size_t n,
                      const fedtrain_step *s) {
    switch (shape_of(s, w0)) {
    case PLAIN:
        momentum(w, v, w0, g, n, *s, PLAIN);
        break;
    case SCALED:
        momentum(w, v, w0, g, n, *s, SCALED);
        break;
    case SHAPED:
        momentum(w, v, w0, g, n, *s, SHAPED);
        break;
    case PROXIMAL:
        momentum(w, v, w0, g, n, *s, PROXIMAL);
        break;
    }
}

KERNEL_INLINE
void adam(float *restrict w, float *restrict m, float *restrict v, const float *restrict w0,
          const float *restrict g, size_t n, fedtrain_step s, shape kind) {
    for (size_t i = 0; i < n; i++) {
        float slope = shaped(&s, kind, w[i], w0, i, g[i]);
        m[i] = s.beta1 * m[i] + s.fresh1 * slope;
        v[i] = s.beta2 * v[i] + s.fresh2 * (slope * slope);
        w[i] = s.keep * w[i] - s.rate * m[i] / (sqrtf(v[i]) * s.scale2 + s.epsilon);
    }
}

void KERNEL(adam)(float *w, float *m, float *v, const float *w0, const float *g, size_t n,
                  const fedtrain_step *s) {
    switch (shape_of(s, w0)) {
    case PLAIN:
        adam(w, m, v, w0, g, n, *s, PLAIN);
        break;
    case SCALED:
        adam(w, m, v, w0, g, n, *s, SCALED);
        break;
    case SHAPED:
        adam(w, m, v, w0, g, n, *s, SHAPED);
        break;
    case PROXIMAL:
        adam(w, m, v, w0, g, n, *s, PROXIMAL);
        break;
    }
}

enum { SUMS = 16 };

/* Add squares to SUMS sums, the same number on every machine, so that all machines round alike. */
KERNEL_INLINE void squares(const float *restrict w, const float *restrict w0,
                           const float *restrict g, size_t n, fedtrain_step s, double *restrict sum,
                           shape kind) {
    size_t whole = n - n % SUMS;
    for (size_t i = 0; i < whole; i += SUMS) {
        for (size_t k = 0; k < SUMS; k++) {
            double slope = (double)clipped(&s, kind, w[i + k], w0, i + k, g[i + k]);
            sum[k] += slope * slope;
        }
    }
    for (size_t i = whole; i < n; i++) {
        double slope = (double)clipped(&s, kind, w[i], w0, i, g[i]);
        sum[i - whole] += slope * slope;
    }
}

double KERNEL(norm)(const float *w, const float *w0, const float *g, size_t n,
                    const fedtrain_step *s) {
    double part[SUMS] = {0}, sum = 0;
    switch (shape_of(s, w0)) {
    case PLAIN:
        squares(w, w0, g, n, *s, part, PLAIN);
        break;
    case SCALED:
        squares(w, w0, g, n, *s, part, SCALED);
        break;
    case SHAPED:
        squares(w, w0, g, n, *s, part, SHAPED);
        break;
    case PROXIMAL:
        squares(w, w0, g, n, *s, part, PROXIMAL);
        break;
    }
    for (size_t k = 0; k < SUMS; k++) {
        sum += part[k];
    }
    return sqrt(sum);
}
