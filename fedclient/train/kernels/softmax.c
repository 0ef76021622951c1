/* Softmax and cross-entropy of one position. A large vocabulary needs a fast e^x. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed/small.h"
#include "fedclient/train/kernels/exponential.h"
#include "fedclient/train/kernels/isa.h"

/* Return the largest value. It may miss a NaN, but then the sum of exponentials is NaN. */
static float largest(const float *x, size_t n) {
    vec best = vec_all(x[0]);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec v = vec_load(x + i);
        best = vec_select(v > best, v, best);
    }
    float top = x[0];
    for (size_t l = 0; l < LANES; l++) {
        top = best[l] > top ? best[l] : top;
    }
    for (; i < n; i++) {
        top = x[i] > top ? x[i] : top;
    }
    return top;
}

/* Return the sum of e^(x - top), and write the terms to y unless it is NULL. Only blocks of a few
 * values are summed in float, and the blocks in double, for accuracy. */
static double exponentials(const float *x, size_t n, float top, float *y) {
    enum { BLOCK = 16 * LANES };
    double total = 0;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t end = first + BLOCK < n ? first + BLOCK : n, i = first;
        vec sum = {0};
        for (; i + LANES <= end; i += LANES) {
            vec e = vec_exp(vec_load(x + i) - top);
            sum += e;
            if (y != NULL) {
                vec_store(y + i, e);
            }
        }
        if (i < end) {
            vec e = vec_exp(vec_load_first(x + i, end - i) - top);
            sum += vec_select(lanes_from(end - i), (vec){0}, e);
            if (y != NULL) {
                vec_store_first(y + i, e, end - i);
            }
        }
        total += (double)vec_sum(sum);
    }
    return total;
}

/* A small build takes the logarithm in float, which needs smaller tables. */
double KERNEL(cross_entropy)(const float *score, size_t n, size_t label, float scale, float *grad) {
    float top = largest(score, n);
    double loss = (double)top - (double)score[label];
    double sum = exponentials(score, n, top, grad);
    if (grad != NULL) {
        float share = (float)((double)scale / sum);
        for (size_t i = 0; i < n; i++) {
            grad[i] *= share;
        }
        grad[label] -= scale;
    }
    return (FED_SMALL ? (double)logf((float)sum) : log(sum)) + loss;
}
