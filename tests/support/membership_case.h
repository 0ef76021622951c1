/* A failure detector's membership for tests: members that have joined, and heartbeats of all at
 * once. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_MEMBERSHIP_CASE_H
#define FED_MEMBERSHIP_CASE_H

#include "fedclient/datacenter/control/membership.h"

/** A membership with `size` members on hosts "a", "b", ..., pids 4709 + slot, none of which has
 * met. */
void membership_case_join(feddc_membership *membership, uint32_t size, uint32_t min,
                          int64_t now_ms);

/** The same, with the first generation begun. todo is 0. */
void membership_case_begin(feddc_membership *membership, uint32_t size, uint32_t min,
                           int64_t now_ms);

/** Member `slot` is in this phase of this step, and waits for a bucket of rank `waits_for`;
 * bucket UINT32_MAX: for none. Each heartbeat has a mark more than the one before. */
void membership_case_heartbeat(feddc_membership *membership, uint32_t slot, uint32_t step,
                               feddc_phase phase, uint32_t bucket, uint32_t waits_for,
                               int64_t now_ms);

/** All others than `silent` repeat their last heartbeat, each 250 ms from *now_ms until `until_ms`,
 * and the membership settles each 50 ms. */
void membership_case_pass(feddc_membership *membership, uint32_t silent, int64_t *now_ms,
                          int64_t until_ms);

#endif
