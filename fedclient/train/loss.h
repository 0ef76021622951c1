/* Losses that backends share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_LOSS_H
#define FEDTRAIN_LOSS_H

#include <stddef.h>

#include "fedclient/train/backend_vtable.h"

/** Return -log softmax(score)[label], computed in double. Unless grad is NULL, set it to the
 * gradient by the scores, times scale: scale * (softmax - one-hot). Tests compare other
 * implementations with this one.   score, grad float32[classes] */
double fedtrain_cross_entropy(const float *score, size_t classes, size_t label, float scale,
                              float *grad);

/** Add the squared error of each of n numbers to *sum. Unless grad is NULL, set grad, float32[n],
 * to the gradient of their mean. */
void fedtrain_squared_error(const float *score, const float *target, size_t n, float *grad,
                            double *sum);

/** Compute the model's loss, as a backend's `loss` does (backend_vtable.h). */
void fedtrain_loss(const fed_arch *arch, const float *score, const fedtrain_labels *labels,
                   size_t n, float *score_grad, double *sum);

#endif
