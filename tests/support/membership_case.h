/* The membership of a failure detector, for tests: its members, and heartbeats of all at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_MEMBERSHIP_CASE_H
#define FED_MEMBERSHIP_CASE_H

#include "fedclient/datacenter/control/membership.h"

/** Make a membership with `size` members on hosts "a", "b", ..., with process IDs 4709 + slot, and
 * no generation. */
void membership_case_join(feddc_membership *membership, uint32_t size, uint32_t min,
                          int64_t now_ms);

/** As membership_case_join, and begin the first generation. Its list of things to do is empty. */
void membership_case_begin(feddc_membership *membership, uint32_t size, uint32_t min,
                           int64_t now_ms);

/** Let member `slot` send a heartbeat: it is in this phase of this step, and waits for a bucket of
 * rank `waits_for` (bucket UINT32_MAX: for none). Its mark grows by 1 each time. */
void membership_case_heartbeat(feddc_membership *membership, uint32_t slot, uint32_t step,
                               feddc_phase phase, uint32_t bucket, uint32_t waits_for,
                               int64_t now_ms);

/** Let time pass from *now_ms to `until_ms`. All members except `silent` repeat their last
 * heartbeat every 250 ms, and the membership is settled every 50 ms. */
void membership_case_pass(feddc_membership *membership, uint32_t silent, int64_t *now_ms,
                          int64_t until_ms);

#endif
