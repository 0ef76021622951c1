/* Losses that backends share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_LOSS_H
#define FEDTRAIN_LOSS_H

#include <stddef.h>

#include "fedclient/train/backend_vtable.h"

/** -log softmax(score)[label], in double; and unless grad is NULL, its gradient by the scores,
 * times scale: scale * (softmax - one-hot). The oracle.   score, grad float32[classes] */
double fedtrain_cross_entropy(const float *score, size_t classes, size_t label, float scale,
                              float *grad);

/** *sum grows by the squared error of each of n numbers; and unless grad is NULL, grad float32[n]
 * is the gradient of their mean. */
void fedtrain_squared_error(const float *score, const float *target, size_t n, float *grad,
                            double *sum);

/** What a backend's `loss` does, by the model's loss. */
void fedtrain_loss(const fed_arch *arch, const float *score, const fedtrain_labels *labels,
                   size_t n, float *score_grad, double *sum);

#endif
