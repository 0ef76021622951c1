/* The fast backend's inner loops: one table for each kind of vector unit, picked at run time. */
#ifndef FEDTRAIN_KERNELS_H
#define FEDTRAIN_KERNELS_H

#include <stddef.h>

/** One Adam step's numbers: w -= rate * m / (sqrt(v) * scale + epsilon). */
typedef struct fedtrain_adam {
    float beta1, beta2;
    float rate;  /* learning rate / (1 - beta1^t) */
    float scale; /* 1 / sqrt(1 - beta2^t) */
    float epsilon;
} fedtrain_adam;

typedef struct fedtrain_kernels {
    const char *isa;
    size_t lanes; /* floats in a vector */

    /* Optimizer steps: w, m, v, g float32[n]. */
    void (*sgd)(float *w, const float *g, size_t n, float rate);
    void (*momentum)(float *w, float *v, const float *g, size_t n, float rate, float keep);
    void (*adam)(float *w, float *m, float *v, const float *g, size_t n, const fedtrain_adam *a);
} fedtrain_kernels;

/** The best table for this processor. */
const fedtrain_kernels *fedtrain_kernels_best(void);

/** The k-th table that this processor can run, best first; NULL past the last. For tests. */
const fedtrain_kernels *fedtrain_kernels_get(size_t k);

#endif
