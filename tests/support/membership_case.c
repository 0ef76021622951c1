/* A failure detector's membership for tests. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "membership_case.h"

#include "fed_test.h"

void membership_case_join(feddc_membership *membership, uint32_t size, uint32_t min,
                          int64_t now_ms) {
    fed_error err = {0};
    assert_fed_ok_err(feddc_membership_init(membership, size, min, 10000, now_ms, &err));
    for (uint32_t i = 0; i < size; i++) {
        feddc_join join = {.requested = FEDDC_NOBODY, .pid = 4709 + i, .host = {(char)('a' + i)}};
        uint32_t slot = FEDDC_NOBODY;
        memcpy(join.computes_on, i == 1 ? "cuda:0" : "", i == 1 ? 7 : 1);
        assert_fed_ok_err(feddc_membership_join(membership, &join, now_ms, &slot, &err));
        assert_int_equal(slot, i);
    }
}

void membership_case_begin(feddc_membership *membership, uint32_t size, uint32_t min,
                           int64_t now_ms) {
    membership_case_join(membership, size, min, now_ms);
    for (uint32_t i = 0; i < size; i++) {
        feddc_membership_meet(membership, i, 0, "127.0.0.1:1", "", now_ms);
    }
    feddc_membership_settle(membership, now_ms);
    assert_int_equal(membership->state, FEDDC_TRAINING);
    assert_int_equal(membership->todo, FEDDC_SEND_WORKER_GROUP);
    membership->todo = 0;
}

void membership_case_heartbeat(feddc_membership *membership, uint32_t slot, uint32_t step,
                               feddc_phase phase, uint32_t bucket, uint32_t waits_for,
                               int64_t now_ms) {
    feddc_heartbeat heartbeat = {.step = step,
                                 .phase = (uint8_t)phase,
                                 .marks = membership->member[slot].heartbeat.marks + 1,
                                 .waits = {step, bucket, waits_for},
                                 .compute_s = 0.01F,
                                 .step_s = 0.02F};
    feddc_membership_heartbeat(membership, slot, &heartbeat, now_ms);
}

void membership_case_pass(feddc_membership *membership, uint32_t silent, int64_t *now_ms,
                          int64_t until_ms) {
    for (; *now_ms < until_ms; *now_ms += 50) {
        for (uint32_t i = 0; i < membership->members && *now_ms % 250 == 0; i++) {
            feddc_heartbeat same = membership->member[i].heartbeat;
            if (i != silent) {
                feddc_membership_heartbeat(membership, i, &same, *now_ms);
            }
        }
        feddc_membership_settle(membership, *now_ms);
    }
}
