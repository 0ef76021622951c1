/* An optimizer's spec string, and its parameters as numbers. libfedtrain runs the optimizer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_OPTIMIZER_SPEC_H
#define FED_OPTIMIZER_SPEC_H

#include <stdbool.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/*
 * A spec string chooses an optimizer, the same in a config, a task and on the command line:
 *
 *     adam     momentum:lr=0.01,nesterov=1,decay=5e-4 adamw:lr=1e-3+warmup:steps=100+clip:norm=1
 *
 * It is a rule, then any parts, each after a '+', once and in any order. Rule and parts have ':'
 * and comma-separated key=value pairs; a key that is left out has its default.
 *
 *   sgd       lr, decay=0
 *             w -= lr g
 *   momentum  lr, m=0.9, nesterov=0, decay=0     Sutskever et al. 2013, section 2; v unscaled by lr
 *             v = m v + g;  w -= lr v;  with nesterov=1  w -= lr (g + m v)
 *   adam      lr, b1=0.9, b2=0.999, eps=1e-8, decay=0     Kingma and Ba 2015, algorithm 1
 *             p = b1 p + (1 - b1) g;  q = b2 q + (1 - b2) g^2;
 *             w -= lr (p / (1 - b1^t)) / (sqrt(q / (1 - b2^t)) + eps)
 *   adamw     lr, b1=0.9, b2=0.999, eps=1e-8, decay=0.01     Loshchilov and Hutter 2019
 *             w *= 1 - lr decay, then as adam; lr's schedule moves the decay too, as in PyTorch
 *
 * decay adds decay * w to g, except in adamw.
 *
 *   +warmup:steps=100             lr grows in equal steps to its full size; the other schedules
 *                                 begin after it     Goyal et al. 2017, section 2.2
 *   +step:every=1000,factor=0.1   lr is multiplied by factor after each `every` steps
 *   +cosine:steps=1000,low=0      lr falls to low * lr in half a cosine, and stays there
 *                                 Loshchilov and Hutter 2017, equation 5, without restarts
 *   +stall:window=100,patience=5,factor=0.1,gain=1e-4
 *                                 lr is multiplied by factor when `patience` windows in a row have
 *                                 a mean loss that is not below (1 - gain) of the best, as
 *                                 in PyTorch's ReduceLROnPlateau; window: its number of steps
 *   +clip:value=0.5,norm=1        each value of g is limited to +-value; then g is scaled to norm
 *                                 if the whole model's norm is larger. Give either, or both
 *                                 Pascanu et al. 2013, algorithm 1
 *   +prox:mu=0.01                 mu (w - w0) is added to g, w0 being the round's first weights
 *                                 Li et al. 2020 (FedProx), equation 2
 *   +scaffold:share=1             c - c_i is added to what clip and decay make of g; with sgd only
 *                                 Karimireddy et al. 2020 (SCAFFOLD), algorithm 1, option II.
 *                                 share: the fraction of all devices that take part in a round
 *                                 c is in the model: its text must end with "| scaffold"
 *   +mask                         the momentum of each value that was sent and counted becomes 0
 *                                 before the next round; not with sgd, and without effect where
 *                                 nothing is sent
 *                                 Lin et al. 2018 (DGC), section 3.3, momentum factor masking
 *   +stateless                    each round begins like the first one: moments, step count and
 *                                 schedule are reset, so a device keeps no state of them; not with
 *                                 mask or scaffold, which need state of earlier rounds
 *                                 Kairouz et al. 2021, table 1, "stateless" clients
 *
 * A gradient goes through prox, clip and decay, in that order, then to the rule. Steps are this
 * client's training iterations, counted from its first round on.
 */

/** The bytes of the longest spec, with its terminating NUL. */
enum { FED_OPTIMIZER_SPEC = 128 };

typedef enum fed_rule { FED_SGD = 0, FED_MOMENTUM = 1, FED_ADAM = 2, FED_ADAMW = 3 } fed_rule;

/** A parsed spec: a rule with its parts. Plain data: copy it freely. */
typedef struct fed_optimizer {
    fed_rule rule;
    double learning_rate; /* the value of a float, exactly */
    double momentum, nesterov;
    double beta1, beta2, epsilon;
    double decay;
    /* The members of a part that the spec leaves out are 0. */
    double warmup_steps;
    double step_every, step_factor;
    double cosine_steps, cosine_low;
    double stall_window, stall_patience, stall_factor, stall_gain;
    double clip_value, clip_norm;
    double prox_mu;
    double scaffold_share;
    bool mask, stateless;
} fed_optimizer;

/**
 * Parse a spec. learning_rate is used if the spec does not name lr.
 * Errors FED_EINVAL, with a sentence that names the wrong word and what is allowed
 */
fed_status fed_optimizer_parse(const char *spec, float learning_rate, fed_optimizer *optimizer,
                               fed_error *err) FED_CHECKED;

FED_API_END

#endif
