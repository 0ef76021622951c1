/* Optimizers: SGD, momentum, Adam, over flat buffers. */
#ifndef FEDTRAIN_OPTIMIZER_H
#define FEDTRAIN_OPTIMIZER_H

#include <stddef.h>

#include "fed/error.h"

typedef enum fedtrain_rule {
    FEDTRAIN_SGD = 0,
    FEDTRAIN_MOMENTUM = 1,
    FEDTRAIN_ADAM = 2
} fedtrain_rule;

/** A rule and its settings. Momentum: v = 0.9 v + g; w -= lr v. Adam: beta 0.9, 0.999, epsilon
 * 1e-8, with bias correction (Kingma and Ba, 2015, algorithm 1). */
typedef struct fedtrain_optimizer {
    fedtrain_rule rule;
    float learning_rate;
} fedtrain_optimizer;

/** "sgd", "momentum", "adam". FED_EINVAL an unknown name (the sentence lists them) or a rate not
 * over 0. */
fed_status fedtrain_optimizer_parse(const char *name, float learning_rate,
                                    fedtrain_optimizer *optimizer, fed_error *err) FED_CHECKED;

/**
 * What the rule remembers between steps, for n parameters: float32 values, all 0 at first, flat, so
 * that saving it is writing it. SGD 0; momentum n; Adam 2 n + 1: first moments, second moments, and
 * the steps taken. From the count both bias corrections follow exactly; it stays at 2^24, where
 * they have long been 1.
 */
size_t fedtrain_optimizer_state_size(const fedtrain_optimizer *optimizer, size_t n);

/** One step: params and state change in place.   state float32[state_size], params, grad float32[n]
 */
void fedtrain_optimizer_step(const fedtrain_optimizer *optimizer, float *state, float *params,
                             const float *grad, size_t n);

#endif
