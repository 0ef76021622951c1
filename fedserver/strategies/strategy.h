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
 * A strategy has two halves. The first combines a round's updates into one vector u. The second
 * turns u into the change of the model, and may keep a state for the next round. A spec names
 * halves and additions, joined by '+'. Each name may have ':' and comma-separated key=value pairs
 * after it. A half that the spec leaves out is fedavg's:
 *
 *     fedavg     fedadam:lr=0.01,tau=1e-3     median     trimmed:p=0.2+fedavgm:m=0.9+clip:norm=1
 *
 * Updates to a vector:
 *   fedavg                u = mean of the updates, weighted by samples    McMahan et al. 2017,
 *                         algorithm 1; departs: rounds/weights.h can lower an update's weight
 *   median                u_j = median of the updates' values j     Yin et al. 2018, definition 1
 *   trimmed    p=0.1      u_j = mean of the values j without the fraction p at each end
 *                         Yin et al. 2018, definition 2
 *   krum       f=1        the update with the nearest neighbours
 *                         Blanchard et al. 2017, section 4
 *   multikrum  f=1, m=0   the mean of the m best updates by krum's score; m=0: all but f + 2
 *                         Blanchard et al. 2017
 *   custom     wait=60    what a program of the operator's answers within that many seconds
 *                         (docs/protocol.md#a-strategy-of-your-own)
 *
 * A vector to a change d, the model being w += d:
 *   fedavg                                         d = u
 *   fedavgm     lr=1, m=0.9                        v = m v + u;  d = lr v      Hsu et al. 2019
 *   fedadagrad  lr=0.1, b1=0, tau=1e-3             Reddi et al. 2021, algorithm 2
 *   fedadam     lr=0.1, b1=0.9, b2=0.99, tau=1e-3  Reddi et al. 2021, algorithm 2
 *   fedyogi     lr=0.1, b1=0.9, b2=0.99, tau=1e-3  Reddi et al. 2021, algorithm 2
 *
 * An addition to any strategy (additions.def):
 *   +clip       norm                               an update x is counted as x min(1, norm / |x|)
 *                                                  McMahan et al. 2018, algorithm 1
 *
 * FedProx (Li et al. 2020) runs in the client: "+prox:mu=0.01" in the task's optimizer goes with
 * any strategy.
 *
 * Rules that need all updates at once (median, trimmed, krum, multikrum, custom) count each update
 * once. The samples that an update claims and its staleness do not change that: a claim must not
 * buy weight. When the round commits, these rules read the updates from the store, through a
 * temporary file (rows.h).
 *
 * Every strategy gives the same bits from the same updates. The order of arrival and kills of the
 * coordinator in between make no difference.
 *
 * Running statistics (docs/decisions/0010) are combined like all values, and the result is their
 * change: moments, rates and norms are of trained values only.
 */

enum { FEDSERVER_STRATEGY_PARAMS = 4, FEDSERVER_STRATEGY_SPEC = 128, FEDSERVER_ADDITIONS = 4 };

/** A strategy. It has combine or step; fedavg has neither. */
typedef struct fedserver_strategy_vtable {
    const char *name;
    fed_param params[FEDSERVER_STRATEGY_PARAMS + 1]; /* the list ends with a NULL key */

    /** Set u, float32[rows->columns], to the combination of a round's updates, at least one. */
    fed_status (*combine)(const double *param, const fedserver_rows *rows, float *u,
                          fed_error *err);
    /** The fewest updates that combine needs (NULL: 1), and the most that it takes (0: any). */
    uint32_t (*least)(const double *param);
    uint32_t most;
    /** Does combine treat each value separately? Then an update must send most of its values. */
    bool dense;
    /** Does combine compare distances between updates? Then the error of a message must be smaller
     * than its update. */
    bool compares;
    /** Does combine wait for another program? Then it runs in a thread of its own. */
    bool outside;

    /** Replace the combined vector u by the model's change d, for the n trained values. state:
     * float32[moments * n] */
    void (*step)(const double *param, float *state, float *u, size_t n);
    size_t moments; /* number of state values for each trained value */
    /** Set the state before the first round. NULL: the state is zeros. */
    void (*start)(const double *param, float *state, size_t n);
} fedserver_strategy_vtable;

/** An addition. It changes each update, or the vector that a round's updates were combined into. */
typedef struct fedserver_addition_vtable {
    const char *name, *example;                      /* example: a spec to show in error messages */
    fed_param params[FEDSERVER_STRATEGY_PARAMS + 1]; /* the list ends with a NULL key */

    /** Change an update's n trained values x before they are counted. norm: that of the update, as
     * fedcodec_message_norm finds it. NULL: no change. */
    void (*update)(const double *param, double norm, float *x, size_t n);
    /** The norm that `update` gives to an update of norm `norm`. NULL only if `update` is NULL. */
    double (*norm)(const double *param, double norm);
    /** Change u, the n trained values of the combined vector, before the step. NULL: no change. */
    void (*combined)(const double *param, float *u, size_t n);
} fedserver_addition_vtable;

typedef struct fedserver_addition {
    const fedserver_addition_vtable *vtable;
    double param[FEDSERVER_STRATEGY_PARAMS];
} fedserver_addition;

typedef struct fedserver_strategy_half {
    const fedserver_strategy_vtable *vtable; /* NULL: this half is that of fedavg */
    double param[FEDSERVER_STRATEGY_PARAMS];
} fedserver_strategy_half;

/** A parsed spec. It owns no memory, so it may be copied. */
typedef struct fedserver_strategy {
    fedserver_strategy_half combine, step;
    fedserver_addition additions[FEDSERVER_ADDITIONS]; /* in the order of the spec */
    size_t addition_count;
} fedserver_strategy;

/** Parse a spec. FED_EINVAL: *err says what is wrong with it. */
fed_status fedserver_strategy_parse(const char *spec, fedserver_strategy *strategy,
                                    fed_error *err) FED_CHECKED;

/** What a codec makes of random values: the fraction that it does not send as 0, and the norm of
 * one message's error, divided by the values' norm. */
typedef struct fedserver_codec_trial {
    double sent, error;
} fedserver_codec_trial;

fed_status fedserver_codec_try(const fedcodec *codec, fedserver_codec_trial *trial,
                               fed_error *err) FED_CHECKED;
/** A codec that sends more than this fraction counts as sending all values: some values are 0
 * anyway. */
#define FEDSERVER_SENDS_ALL 0.75

/** Check that the strategy fits a task whose rounds commit with `minimum` to `goal` updates.
 * FED_EINVAL, with a sentence: the strategy needs more updates, or takes fewer, or codec_up sends
 * too few of an update's values, or errs too much. */
fed_status fedserver_strategy_check(const fedserver_strategy *strategy, uint32_t minimum,
                                    uint32_t goal, const fedcodec *codec_up,
                                    fed_error *err) FED_CHECKED;

/** Does the strategy wait for another program? */
bool fedserver_strategy_is_outside(const fedserver_strategy *strategy);

bool fedserver_strategy_needs_all(const fedserver_strategy *strategy);

/** Does an addition change updates before they are counted? */
bool fedserver_strategy_changes(const fedserver_strategy *strategy);

/** Apply the additions to an update's trained values, before they are counted. norm: that of the
 * update, as fedcodec_message_norm finds it. */
void fedserver_strategy_update(const fedserver_strategy *strategy, double norm, float *x,
                               size_t trained);

/** The norm that an update of norm `norm` has after the additions. */
double fedserver_strategy_norm(const fedserver_strategy *strategy, double norm);

/** The number of a layout's trained values. They lie before control variates and running
 * statistics. */
size_t fedserver_trained(const fed_layout *layout);

/** The number of values in the strategy's state for that many trained values.
 * fedserver_strategy_start sets the state before the first round. */
size_t fedserver_strategy_state_size(const fedserver_strategy *strategy, size_t trained);
void fedserver_strategy_start(const fedserver_strategy *strategy, float *state, size_t trained);

/** Replace the combined vector u by the change of the model, and update the state. */
void fedserver_strategy_step(const fedserver_strategy *strategy, float *state, float *u,
                             size_t trained);

/** The k-th strategy of strategies.def, or addition of additions.def; NULL: k is too large. */
const fedserver_strategy_vtable *fedserver_strategy_at(size_t k);
const fedserver_addition_vtable *fedserver_addition_at(size_t k);

#endif
