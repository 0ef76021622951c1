/* The form `masked` of updates: fields of a private task, of which only the sum is read. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_MASKED_H
#define FEDSERVER_MASKED_H

#include "fedcodec/ring.h"
#include "fedserver/rounds/rounds.h"

/** The shape and the draw of a round of a private task. */
fedcodec_ring fedserver_masked_ring(const fedserver_task *task, const fed_layout *layout,
                                    uint32_t round);

/*
 * Between "the set of updates is settled" and "the version is committed" stands the opening:
 * fedserver_rounds.opening (rounds.h). It is called once a combination, with a copy of the sum:
 *
 *     sums    uint32_t[ring->shape.all], the sum of all fields of the set, modulo 2^32. The
 *             opening takes masks off and adds noise, in place; what is left counts modulo 2^w
 *     training, contributions   training->sum has the set; training->round.number is the round
 *
 * It may run in the thread of a closing, with that thread's store. It must be a function of the
 * set and of what the store keeps of the round (D3 in docs/durability.md): after a restart it is
 * called again. NULL: masks of 0, no noise. An error ends the combination; nothing was changed.
 */

/**
 * The longest sum of `updates` honest updates, as a 2-norm in levels, and of noise with variance
 * sigma2 on each field: updates D + sigma (sqrt(k') + 8). Noise is longer with a probability
 * below 2^-46. A
 * sum beyond it has an update of a device that ignores the clip. Behind masks nobody sees which, so
 * the round commits without a change of the model.
 */
double fedserver_masked_longest(const fedcodec_ring *ring, uint32_t updates, double sigma2);

/** The most variance that the noise on a field of the sum can have, in levels squared: sigma2 for
 * each party that may add it, and more where noise of later rounds takes off that of earlier ones
 * (`apart` above 1): there the released noise has at most 1.341 times its variance. */
double fedserver_masked_noise(const fed_privacy *told);

#endif
