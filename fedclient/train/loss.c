/* Losses that backends share. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/loss.h"

#include <math.h>

double fedtrain_cross_entropy(const float *score, size_t classes, size_t label, float scale,
                              float *grad) {
    double top = score[0];
    for (size_t j = 1; j < classes; j++) { /* not fmax: gcc 12 for aarch64 crashes on it here */
        top = score[j] > top ? score[j] : top;
    }
    double sum = 0;
    for (size_t j = 0; j < classes; j++) {
        sum += exp(score[j] - top);
    }
    for (size_t j = 0; grad != NULL && j < classes; j++) {
        grad[j] = (float)(scale * (exp(score[j] - top) / sum - (j == label)));
    }
    return log(sum) + top - score[label];
}

void fedtrain_squared_error(const float *score, const float *target, size_t n, float *grad,
                            double *sum) {
    for (size_t i = 0; i < n; i++) {
        float miss = score[i] - target[i];
        *sum += (double)miss * miss;
        if (grad != NULL) {
            grad[i] = 2.0F * miss / (float)n;
        }
    }
}

void fedtrain_loss(const fed_arch *arch, const float *score, const fedtrain_labels *labels,
                   size_t n, float *score_grad, double *sum) {
    const size_t classes = arch->classes;
    if (arch->loss == FED_LOSS_SQUARED) {
        fedtrain_squared_error(score, labels->target, n * classes, score_grad, sum);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float *grad = score_grad != NULL ? score_grad + i * classes : NULL;
        *sum += fedtrain_cross_entropy(score + i * classes, classes, labels->label[i],
                                       1.0F / (float)n, grad);
    }
}
