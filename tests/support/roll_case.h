/* A judge's roll for tests: members that have joined, and beats of all at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_ROLL_CASE_H
#define FED_ROLL_CASE_H

#include "fedclient/datacenter/control/roll.h"

/** A roll with `size` members on hosts "a", "b", ..., pids 4709 + slot, none of which has met. */
void roll_case_join(feddc_roll *roll, uint32_t size, uint32_t min, int64_t now_ms);

/** The same, with the first generation begun. todo is 0. */
void roll_case_begin(feddc_roll *roll, uint32_t size, uint32_t min, int64_t now_ms);

/** Member `slot` is in this phase of this step, and waits for a bucket of rank `waits_for`;
 * bucket UINT32_MAX: for none. Each beat has a mark more than the one before. */
void roll_case_beat(feddc_roll *roll, uint32_t slot, uint32_t step, feddc_phase phase,
                    uint32_t bucket, uint32_t waits_for, int64_t now_ms);

/** All others than `silent` repeat their last beat, each 250 ms from *now_ms until `until_ms`, and
 * the roll settles each 50 ms. */
void roll_case_pass(feddc_roll *roll, uint32_t silent, int64_t *now_ms, int64_t until_ms);

#endif
