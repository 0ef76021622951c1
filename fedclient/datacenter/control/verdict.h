/* Find the member that failed, from heartbeats and ends of connections, and write its verdict. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_VERDICT_H
#define FEDDC_VERDICT_H

#include "fedclient/datacenter/control/membership_state.h"

/** Judge a member by its connection and last heartbeat: FEDDC_ALIVE, DIED, STOPPED or CUT_OFF. */
feddc_fate feddc_verdict_silence(const feddc_membership *membership, uint32_t slot, int64_t now_ms);

/** Return the slot of a member that sends heartbeats but keeps others waiting, and set *fate.
 * FEDDC_NOBODY: there is none. */
uint32_t feddc_verdict_stuck(const feddc_membership *membership, int64_t now_ms, feddc_fate *fate);

/** Return whether all members have waited for each other for too long, and none can be blamed. */
bool feddc_verdict_deadlock(const feddc_membership *membership, int64_t now_ms);

/** Return the median over living members of a heartbeat's value. Values of 0 or less do not count.
 * 0: no member has a value above 0. */
double feddc_verdict_median(const feddc_membership *membership,
                            float (*value)(const feddc_heartbeat *heartbeat));

/** Once all living members have reported their digest after `completed` steps, return the slot of a
 * member whose digest differs from the majority's. FEDDC_NOBODY: none, or not all have reported.
 * *split: digests differ and none has a majority; the slot then means nothing. */
uint32_t feddc_verdict_odd(const feddc_membership *membership, uint32_t completed, bool *split);

/** Fill in a verdict on the member. detail: the reason to add to the text, or "". */
void feddc_verdict_report(const feddc_membership *membership, uint32_t slot, feddc_fate fate,
                          const char *detail, int64_t now_ms, feddc_verdict *verdict);

#endif
