/* Optimizers at work, over flat buffers: what they remember, and one step. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_OPTIMIZER_H
#define FEDTRAIN_OPTIMIZER_H

#include <stddef.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fed/optimizer_spec.h"

FED_API_BEGIN

/**
 * What an optimizer remembers between steps, for n parameters: float32 values, all 0 at first,
 * flat, so that saving it is writing it.
 *
 *   moments   none for sgd; momentum n; adam and adamw 2 n, first and second ones
 *   steps     1, the steps taken: for adam, adamw, warmup, step and cosine. It stays at 2^24, where
 *             bias corrections have long been 1 and schedules have ended.
 *   stall     5: the window's losses and their number, the best mean, windows since, cuts so far
 *   prox      n, the round's first weights
 *   scaffold  2 n + 1, the round's first weights, c_i, and the sum of its learning rates
 */
size_t fedtrain_optimizer_state_size(const fed_optimizer *optimizer, size_t n);

/** A round begins with these params. The state keeps them for prox and scaffold; a stateless
 * optimizer's state becomes 0. */
void fedtrain_optimizer_begin_round(const fed_optimizer *optimizer, float *state,
                                    const float *params, size_t n);

/**
 * The round is over, and all its steps were taken. For scaffold only; else does nothing.
 *
 *     c_i' = c_i - c + (x - y) / rates;   c += share (c_i' - c_i)
 *
 * x and y are the weights before and after the round; c is params[n] to params[2 n - 1]. The
 * device's change of c goes to the coordinator with its update, and the mean of all devices'
 * changes comes back with the model: that is the paper's c. A change that was not counted stays in
 * the residual, as one of weights does. rates is the sum of the steps' learning rates; at a
 * constant rate it is the paper's K lr.
 */
void fedtrain_optimizer_end_round(const fed_optimizer *optimizer, float *state, float *params,
                                  size_t n);

/** Tell "stall" the loss of the batch that the next step is for; else does nothing. loss is finite.
 */
void fedtrain_optimizer_see_loss(const fed_optimizer *optimizer, float *state, size_t n,
                                 float loss);

/** The learning rate of the next step, by the schedule. */
double fedtrain_optimizer_rate(const fed_optimizer *optimizer, const float *state, size_t n);

/** One step of params and state, in place. fedtrain_run steps layer by layer, with the same bits;
 * so do all vector units.
 * state float32[state_size]   grad float32[n]   params float32[n], for scaffold float32[2 n] */
void fedtrain_optimizer_step(const fed_optimizer *optimizer, float *state, float *params,
                             const float *grad, size_t n);

/** A step that is taken in parts, as fedtrain_optimizer_begin_step leaves it: the library's own. It
 * has no memory elsewhere, so it may be copied, and forgotten. */
typedef struct fedtrain_open_step {
    double opaque[24];
} fedtrain_open_step;

/**
 * Begins a step that is taken in parts: counts it in the state. What fedtrain_optimizer_see_loss
 * shall say of this step, it must have said before. Nothing is updated yet.
 *
 * state, params  as fedtrain_optimizer_step's; they must be there until the last part is taken
 * Errors         FED_EINVAL the optimizer clips by norm, for which the whole gradient must be there
 *                first: take such a step with fedtrain_optimizer_step
 */
fed_status fedtrain_optimizer_begin_step(const fed_optimizer *optimizer, float *state,
                                         float *params, size_t n, fedtrain_open_step *step,
                                         fed_error *err) FED_CHECKED;

/**
 * The step of parameters offset .. offset + n - 1 and of their part of the state. Each value of
 * grad is multiplied by scale first, in float32: with 1/N a sum of N gradients becomes their mean.
 * Each parameter is stepped once; with the same gradients and a scale of 1 all parts together leave
 * the bits of fedtrain_optimizer_step, whatever the parts and their order. The whole step must be
 * taken before the next one begins.
 *
 * grad     float32[n], of these parameters
 * Threads  several may take parts of one step, each other parameters
 */
void fedtrain_optimizer_step_part(const fedtrain_open_step *step, size_t offset, size_t n,
                                  const float *grad, float scale);

/**
 * Momentum masking, for a codec that sends a part of each update: where a value was sent, the
 * momentum (Adam's first moment) becomes 0, so that it does not push on in a stale direction. Call
 * it before a round whose optimizer->mask is true, with what fedclient_round_sent says was counted
 * since the round before.
 *
 * sent   float32[n], the update as the receiver decodes it; 0: not sent
 * Paper  Lin et al. 2018 (DGC), section 3.3, "momentum factor masking". DGC masks the residual too;
 *        here that is the codec's
 *
 * Momentum correction, section 3.2 of that paper, needs no function. v accumulates gradients on the
 * device before anything is left out, as long as `state` stays with it from round to round, and the
 * update is what v did to the weights. So the residual gathers -lr v, where DGC's gathers v and is
 * multiplied by lr when it arrives. Both are the same while lr stays. Where lr falls, a value that
 * a device still owes keeps the rate that it was trained with.
 */
void fedtrain_optimizer_mask(const fed_optimizer *optimizer, float *state, const float *sent,
                             size_t n);

FED_API_END

#endif
