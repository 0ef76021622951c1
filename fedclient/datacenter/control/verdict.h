/* Who has failed, by what the failure detector has heard; and the sentence that says so. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_VERDICT_H
#define FEDDC_VERDICT_H

#include "fedclient/datacenter/control/membership_state.h"

/** What has become of this member, by its own silence: ALIVE, DIED, STOPPED or CUT_OFF. */
feddc_fate feddc_verdict_silence(const feddc_membership *membership, uint32_t slot, int64_t now_ms);

/** Who holds all others up, though it sends heartbeats: a slot and *fate; FEDDC_NOBODY: nobody. */
uint32_t feddc_verdict_stuck(const feddc_membership *membership, int64_t now_ms, feddc_fate *fate);

/** true: all wait for each other and nothing has moved for too long, but nobody can be blamed. */
bool feddc_verdict_deadlock(const feddc_membership *membership, int64_t now_ms);

/** The median of what the living members say; 0: none says more than 0. */
double feddc_verdict_median(const feddc_membership *membership,
                            float (*value)(const feddc_heartbeat *heartbeat));

/** Whose digest after `completed` steps is not the majority's, once all have reported: a slot;
 * FEDDC_NOBODY: all agree, or not all are in. *split: they differ, and there is no majority. */
uint32_t feddc_verdict_odd(const feddc_membership *membership, uint32_t completed, bool *split);

/** Fill in a verdict on the member: worker, host, step, phase and text. detail: "" or what the
 * fate's sentence needs: the reason of GAVE_UP. */
void feddc_verdict_report(const feddc_membership *membership, uint32_t slot, feddc_fate fate,
                          const char *detail, int64_t now_ms, feddc_verdict *verdict);

#endif
