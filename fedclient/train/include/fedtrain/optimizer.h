/* Optimizers at work on flat arrays: the state that they keep, and one step. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_OPTIMIZER_H
#define FEDTRAIN_OPTIMIZER_H

#include <stddef.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fed/optimizer_spec.h"

FED_API_BEGIN

/**
 * The number of values in the state that an optimizer keeps between steps, for n parameters. The
 * state is a flat array of float32 values, all 0 at first, which a program may save as it is. Its
 * parts are:
 *
 *   moments   none for sgd; momentum n; adam and adamw 2 n, first and second ones
 *   steps     1 value, the steps taken, at most 2^24; for adam, adamw, warmup, step and cosine
 *   stall     5 values, for the schedule of this name: sum and number of the window's losses, the
 *             best window's mean, 1 + the windows since that or since the last cut of the rate, and
 *             how often the rate was cut
 *   prox      n, the round's first weights
 *   scaffold  2 n + 1, the round's first weights (shared with prox), c_i, and the sum of the
 *             round's learning rates
 */
size_t fedtrain_optimizer_state_size(const fed_optimizer *optimizer, size_t n);

/** Tell the optimizer that a round begins with these params. The state keeps a copy for prox and
 * scaffold. If the optimizer is stateless (fed/optimizer_spec.h), the state becomes 0. */
void fedtrain_optimizer_begin_round(const fed_optimizer *optimizer, float *state,
                                    const float *params, size_t n);

/**
 * Tell the optimizer that all steps of the round were taken. Without scaffold it does nothing.
 * With it:
 *
 *     c_i' = c_i - c + (x - y) / rates;   c += share (c_i' - c_i)
 *
 * x and y are the weights before and after the round; c is params[n] to params[2 n - 1]. The
 * device's change of c goes to the coordinator with its update, and the mean of all devices'
 * changes comes back with the model: that is the paper's c (Karimireddy et al. 2020). A change
 * that the coordinator did not count stays in the residual, as a change of weights does. rates is
 * the sum of the steps' learning rates; at a constant rate it is the paper's K lr.
 */
void fedtrain_optimizer_end_round(const fed_optimizer *optimizer, float *state, float *params,
                                  size_t n);

/** Tell the schedule "stall" the loss of the next step's batch. With another schedule it does
 * nothing. loss is finite. */
void fedtrain_optimizer_see_loss(const fed_optimizer *optimizer, float *state, size_t n,
                                 float loss);

/** The learning rate of the next step, by the schedule. */
double fedtrain_optimizer_rate(const fed_optimizer *optimizer, const float *state, size_t n);

/** One step of params and state, in place. fedtrain_run gets the same bits. All vector units give
 * the same bits, too.
 * state float32[state_size]   grad float32[n]   params float32[n], for scaffold float32[2 n] */
void fedtrain_optimizer_step(const fed_optimizer *optimizer, float *state, float *params,
                             const float *grad, size_t n);

/** A step that is taken in parts, as fedtrain_optimizer_begin_step makes it. Only the library reads
 * it. It owns no memory, so it may be copied, and need not be freed. */
typedef struct fedtrain_open_step {
    double opaque[24];
} fedtrain_open_step;

/**
 * Begin a step that is taken in parts, and count it in the state; no parameter is updated yet.
 * Call fedtrain_optimizer_see_loss for this step before, if the schedule needs it.
 *
 * state, params  as fedtrain_optimizer_step's; they must be there until the last part is taken
 * Errors         FED_EINVAL the optimizer clips by norm, for which the whole gradient must be there
 *                first: take such a step with fedtrain_optimizer_step
 */
fed_status fedtrain_optimizer_begin_step(const fed_optimizer *optimizer, float *state,
                                         float *params, size_t n, fedtrain_open_step *step,
                                         fed_error *err) FED_CHECKED;

/**
 * Step parameters offset .. offset + n - 1 and their part of the state. Each value of grad is
 * multiplied by scale first, in float32: with 1/N a sum of N gradients becomes their mean. Each
 * parameter is stepped once; with the same gradients and a scale of 1 all parts together leave the
 * bits of fedtrain_optimizer_step, whatever the parts and their order. The whole step must be
 * taken before the next one begins.
 *
 * grad     float32[n], of these parameters
 * Threads  several threads may take parts of one step, each with parameters of its own
 */
void fedtrain_optimizer_step_part(const fedtrain_open_step *step, size_t offset, size_t n,
                                  const float *grad, float scale);

/**
 * Momentum masking, for a codec that sends a part of each update: where a value was sent, the
 * momentum (Adam's first moment) becomes 0, so that old gradients do not push the value further in
 * a stale direction. Call it before a round whose optimizer->mask is true, with the values that
 * fedclient_round_sent reports as counted since the round before.
 *
 * sent   float32[n], the update as the receiver decodes it; 0: not sent
 * Paper  Lin et al. 2018 (DGC), section 3.3, "momentum factor masking". DGC masks the residual
 *        too; here the codec does that
 *
 * Momentum correction, section 3.2 of that paper, needs no function. The momentum v sums gradients
 * on the device before the codec leaves any out, as long as the device keeps `state` from round to
 * round. The update is the change that v made to the weights. So the residual gathers -lr v, where
 * DGC's gathers v, which is multiplied by lr when it arrives. Both are equal while the learning
 * rate lr is constant. When lr falls, a value still in the residual keeps the rate that it was
 * trained with.
 */
void fedtrain_optimizer_mask(const fed_optimizer *optimizer, float *state, const float *sent,
                             size_t n);

/**
 * SCAFFOLD, where c travels by a codec: let this device's c_i be what the coordinator's c has of
 * it, for one round. Without it, the corrections of all devices would not add up to 0, and a value
 * of which c has nothing yet would not be trained: its gradient less c_i is about 0.
 *
 * c += sign owed / share. Call it with sign 1 before the round, and with -1 after its end.
 *
 * params  float32[2 n], as for fedtrain_optimizer_end_round
 * owed    float32[2 n]: what the receiver has not got of this device's changes of params
 */
void fedtrain_optimizer_owed(const fed_optimizer *optimizer, float *params, const float *owed,
                             float sign, size_t n);

FED_API_END

#endif
