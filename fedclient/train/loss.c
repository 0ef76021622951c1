/* Losses that backends share. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/loss.h"

#include <math.h>

double fedtrain_cross_entropy(const float *score, size_t classes, size_t label, float scale,
                              float *grad) {
    double top = score[0];
    for (size_t j = 1; j < classes; j++) { /* with fmax, gcc 12 for aarch64 breaks down */
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
