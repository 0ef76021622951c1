/* Strategies: how a round's updates become the change of the model, chosen by a spec string. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STRATEGY_H
#define FEDSERVER_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/model.h"
#include "fed/params.h"
#include "fedcodec/codec.h"
#include "fedserver/strategies/rows.h"

/*
 * A strategy has two halves. One makes a round's updates one vector u; the other makes u the change
 * of the model, and may remember something for the next round. A spec names either or both, joined
 * by '+', each with ':' and comma-separated key=value pairs; what is left out is fedavg's:
 *
 *     fedavg     fedadam:lr=0.01,tau=1e-3     median     trimmed:p=0.2+fedavgm:m=0.9+clip:norm=1
 *
 * Updates to a vector:
 *   fedavg                u = mean of the updates, weighted by samples    McMahan et al. 2017,
 *                         algorithm 1; summed as integers, see aggregate.h
 *   median                u_j = median of the updates' values j     Yin et al. 2018, definition 1
 *   trimmed    p=0.1      u_j = their mean without the share p at each end   ..., definition 2
 *   krum       f=1        the update with the nearest neighbours     Blanchard et al. 2017, section
 * 4 multikrum  f=1, m=0   the mean of the m best by krum's score; m=0: all but f + 2     ...
 *
 * A vector to a change d, the model being w += d:
 *   fedavg                                         d = u
 *   fedavgm     lr=1, m=0.9                        v = m v + u;  d = lr v      Hsu et al. 2019
 *   fedadagrad  lr=0.1, b1=0, tau=1e-3             Reddi et al. 2021, algorithm 2
 *   fedadam     lr=0.1, b1=0.9, b2=0.99, tau=1e-3  ...
 *   fedyogi     lr=0.1, b1=0.9, b2=0.99, tau=1e-3  ...
 *
 * A part that goes with any:
 *   +clip       norm                               an update x is counted as x min(1, norm / |x|)
 *                                                  McMahan et al. 2018, algorithm 1
 *
 * FedProx (Li et al. 2020) is the client's: "+prox:mu=0.01" in the task's optimizer goes with any
 * strategy.
 *
 * Rules that need all updates at once (median, trimmed, krum, multikrum) count each update once,
 * whatever samples it claims and however stale it is: a claim must not buy weight. They read the
 * updates that the store holds anyway when the round commits, through a temporary file (rows.h).
 *
 * Every strategy gives the same bits from the same updates, in whatever order they came and however
 * often the coordinator was killed in between.
 *
 * Running statistics (docs/decisions/0010) are combined like all values, and that is their change:
 * moments, rates and norms are of trained values only.
 */

enum { FEDSERVER_STRATEGY_PARAMS = 4, FEDSERVER_STRATEGY_SPEC = 128 };

/** What a strategy's folder provides: a combine (NULL for fedavg), or a step. */
typedef struct fedserver_strategy_vtable {
    const char *name;
    fed_param params[FEDSERVER_STRATEGY_PARAMS + 1]; /* ends with a NULL key */

    /** u = all updates of a round, one at least.   u  float32[rows->columns] */
    fed_status (*combine)(const double *param, const fedserver_rows *rows, float *u,
                          fed_error *err);
    /** How few updates combine makes sense of, and how many it takes. NULL: any number. */
    uint32_t (*least)(const double *param);
    uint32_t most;
    /** Does combine look at each value by itself? Then most values must be sent. */
    bool dense;

    /** d = u, in place, of the n trained values.   state  float32[moments * n] */
    void (*step)(const double *param, float *state, float *u, size_t n);
    size_t moments; /* a state has so many values for each trained one */
    /** The state before the first round. NULL: zeros. */
    void (*start)(const double *param, float *state, size_t n);
} fedserver_strategy_vtable;

/** One half of a strategy with its parameters. */
typedef struct fedserver_strategy_half {
    const fedserver_strategy_vtable *vtable; /* NULL: fedavg's */
    double param[FEDSERVER_STRATEGY_PARAMS];
} fedserver_strategy_half;

/** What a spec string means. Plain data, copy it freely. */
typedef struct fedserver_strategy {
    fedserver_strategy_half combine, step;
    double clip_norm; /* 0: updates are counted as they are */
} fedserver_strategy;

/** Understand a spec. FED_EINVAL, with a sentence that names the word that is wrong and what would
 * be right. */
fed_status fedserver_strategy_parse(const char *spec, fedserver_strategy *strategy,
                                    fed_error *err) FED_CHECKED;

/** The share of an update's values that reach the coordinator as something else than 0: tried on
 * noise. */
fed_status fedserver_sent_share(const fedcodec *codec, double *share) FED_CHECKED;
/** From this share on, an update holds all values, but for a few that happen to be 0. */
#define FEDSERVER_SENDS_ALL 0.75

/** Does the strategy fit a task whose rounds commit with `minimum` to `goal` updates? FED_EINVAL,
 * with a sentence: it needs more updates, or takes fewer, or codec_up leaves too few of their
 * values. */
fed_status fedserver_strategy_check(const fedserver_strategy *strategy, uint32_t minimum,
                                    uint32_t goal, const fedcodec *codec_up,
                                    fed_error *err) FED_CHECKED;

/** Does it need all updates at once? */
bool fedserver_strategy_needs_all(const fedserver_strategy *strategy);

/** How many of a layout's values are trained: those before its running statistics. */
size_t fedserver_trained(const fed_layout *layout);

/** Values of its state, for so many trained values; and what they are before the first round. */
size_t fedserver_strategy_state_size(const fedserver_strategy *strategy, size_t trained);
void fedserver_strategy_start(const fedserver_strategy *strategy, float *state, size_t trained);

/** u becomes the change of the model, in place; the state moves on by a round. */
void fedserver_strategy_step(const fedserver_strategy *strategy, float *state, float *u,
                             size_t trained);

/** The k-th strategy of strategies.def, or NULL past the last. */
const fedserver_strategy_vtable *fedserver_strategy_at(size_t k);

#endif
