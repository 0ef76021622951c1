/* The form `masked` of updates: fields of a private task, of which only the sum is read. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_MASKED_H
#define FEDSERVER_MASKED_H

#include "fedcodec/ring.h"
#include "fedserver/rounds/intake.h"

/** The shape and the draw of a round of a private task. */
fedcodec_ring fedserver_masked_ring(const fedserver_task *task, const fed_layout *layout,
                                    uint32_t round);

/*
 * Between "the set of updates is settled" and "the version is committed" stands the opening:
 * fedserver_rounds.opening (rounds.h). It is called once a combination, with a copy of the sum:
 *
 *     sums    uint32_t[groups][ring->shape.all], the sum of all fields of each group of the
 *             set, modulo 2^32; one group where the task has none (rounds/grouped.h). The opening
 *             takes masks off and adds noise, in place; what is left counts modulo 2^w
 *     training, contributions   training->sum has the set; training->round.number is the round
 *
 * It may run in the thread of a closing, with that thread's store. It must be a function of the
 * set and of what the store keeps of the round (D3 in docs/durability.md): after a restart it is
 * called again. NULL: masks of 0, no noise. An error ends the combination; nothing was changed.
 */

/* The members of the intake `masked` (rounds/intake.h), which `grouped` has, too: a device's
 * message is the same. */
fed_status fedserver_masked_most_bytes(const fedserver_task *task, const fed_layout *layout,
                                       const fedserver_phase *phase, uint64_t *most,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_masked_check(const fedserver_task *task, const fed_layout *layout,
                                  fedserver_update *update, fed_error *why) FED_CHECKED;
void fedserver_masked_drop(fedserver_update *update);
fed_status fedserver_masked_add(fedserver_sum *sum, const fedserver_update *update,
                                const fedserver_contribution *contribution,
                                fed_error *err) FED_CHECKED;

/** An update's fields, which have so many bytes. */
const uint8_t *fedserver_masked_fields(const fedserver_update *update, size_t bytes);

/** Open sums as above: take the masks off, and add the coordinator's noise, if it adds any. */
fed_status fedserver_masked_open(fedserver_rounds *rounds, const fedserver_training *training,
                                 const fedcodec_ring *ring, uint32_t *sums,
                                 fed_error *err) FED_CHECKED;

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
