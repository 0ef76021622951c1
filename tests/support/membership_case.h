/* Memberships of a failure detector, for tests. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_MEMBERSHIP_CASE_H
#define FED_MEMBERSHIP_CASE_H

#include "fedclient/datacenter/control/membership.h"

/** Make a membership with `size` members on hosts "a", "b", ..., and no generation. */
void membership_case_join(feddc_membership *membership, uint32_t size, uint32_t min,
                          int64_t now_ms);

/** As membership_case_join, and begin the first generation. */
void membership_case_begin(feddc_membership *membership, uint32_t size, uint32_t min,
                           int64_t now_ms);

/** Let member `slot` send a heartbeat. It waits for this bucket of rank `waits_for`; bucket
 * UINT32_MAX: for none. */
void membership_case_heartbeat(feddc_membership *membership, uint32_t slot, uint32_t step,
                               feddc_phase phase, uint32_t bucket, uint32_t waits_for,
                               int64_t now_ms);

/** Let time pass until until_ms. All members except `silent` repeat their last heartbeat. */
void membership_case_pass(feddc_membership *membership, uint32_t silent, int64_t *now_ms,
                          int64_t until_ms);

#endif
