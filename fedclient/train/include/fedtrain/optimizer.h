/* Optimizers at work, over flat buffers: what they remember, and one step. */
#ifndef FEDTRAIN_OPTIMIZER_H
#define FEDTRAIN_OPTIMIZER_H

#include <stddef.h>

#include "fed/api.h"
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

/** The round begins with params: prox pulls to them, scaffold measures from them, and a stateless
 * optimizer forgets all else. */
void fedtrain_optimizer_begin_round(const fed_optimizer *optimizer, float *state,
                                    const float *params, size_t n);

/**
 * It is over, with all its steps. Else than for scaffold, does nothing.
 *
 *     c_i' = c_i - c + (x - y) / rates;   c += share (c_i' - c_i)
 *
 * from x to y within the round. c is params[n] to params[2 n - 1]: what the device adds to it goes
 * to the coordinator with its update, as running statistics do, and the mean of all comes back with
 * the model. That is the paper's c, whoever takes part and however a device gets its model; and
 * what was not counted stays in the residual, as it does for weights. rates, the sum of the steps'
 * learning rates, is the paper's K lr where the rate stays the same.
 */
void fedtrain_optimizer_end_round(const fed_optimizer *optimizer, float *state, float *params,
                                  size_t n);

/** The loss of the batch that the next step is for, finite: "stall" watches it. Else does nothing.
 */
void fedtrain_optimizer_see_loss(const fed_optimizer *optimizer, float *state, size_t n,
                                 float loss);

/** The learning rate of the next step, by the schedule. */
double fedtrain_optimizer_rate(const fed_optimizer *optimizer, const float *state, size_t n);

/** One step: params and state change in place; the same bits as from fedtrain_run, which updates in
 * parts, and with any vectors.   state float32[state_size], params, grad float32[n]; for scaffold
 * params float32[2 n] */
void fedtrain_optimizer_step(const fed_optimizer *optimizer, float *state, float *params,
                             const float *grad, size_t n);

/**
 * Momentum masking, for updates of which a codec sent a part: where a value was sent, the momentum
 * (Adam's first moment) becomes 0, so that it does not push on in a direction that is stale.
 * Whoever trains calls it before a round whose optimizer->mask is true, with what was counted since
 * the round before: fedclient_round_sent.
 *
 * sent   float32[n], the update as the receiver decodes it: 0 is what was not sent
 * Paper  Lin et al. 2018 (DGC), section 3.3, "momentum factor masking"; the residual, which DGC
 *        masks with it, is the codec's
 *
 * Momentum correction, section 3.2 of that paper, needs no function: v accumulates gradients on the
 * device before anything is left out, as long as `state` stays with it from round to round, and the
 * update is what v did to the weights. So the residual gathers -lr v, where DGC's gathers v and is
 * multiplied by lr once it arrives: the same while lr stays, and where it falls, what a device
 * still owes keeps the rate that it was trained with.
 */
void fedtrain_optimizer_mask(const fed_optimizer *optimizer, float *state, const float *sent,
                             size_t n);

FED_API_END

#endif
