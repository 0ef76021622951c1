/* A judge's roll for tests. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "roll_case.h"

#include "fed_test.h"

void roll_case_join(feddc_roll *roll, uint32_t size, uint32_t min, int64_t now_ms) {
    fed_error err = {0};
    assert_fed_ok_err(feddc_roll_init(roll, size, min, 10000, now_ms, &err));
    for (uint32_t i = 0; i < size; i++) {
        feddc_join join = {.wish = FEDDC_NOBODY, .pid = 4709 + i, .host = {(char)('a' + i)}};
        uint32_t slot = FEDDC_NOBODY;
        memcpy(join.computes_on, i == 1 ? "cuda:0" : "", i == 1 ? 7 : 1);
        assert_fed_ok_err(feddc_roll_join(roll, &join, now_ms, &slot, &err));
        assert_int_equal(slot, i);
    }
}

void roll_case_begin(feddc_roll *roll, uint32_t size, uint32_t min, int64_t now_ms) {
    roll_case_join(roll, size, min, now_ms);
    for (uint32_t i = 0; i < size; i++) {
        feddc_roll_meet(roll, i, 0, "127.0.0.1:1", "", now_ms);
    }
    feddc_roll_settle(roll, now_ms);
    assert_int_equal(roll->state, FEDDC_TRAINING);
    assert_int_equal(roll->todo, FEDDC_TELL_GANG);
    roll->todo = 0;
}

void roll_case_beat(feddc_roll *roll, uint32_t slot, uint32_t step, feddc_phase phase,
                    uint32_t bucket, uint32_t waits_for, int64_t now_ms) {
    feddc_beat beat = {.step = step,
                       .phase = (uint8_t)phase,
                       .marks = roll->member[slot].beat.marks + 1,
                       .waits = {step, bucket, waits_for},
                       .compute_s = 0.01F,
                       .step_s = 0.02F};
    feddc_roll_beat(roll, slot, &beat, now_ms);
}

void roll_case_pass(feddc_roll *roll, uint32_t silent, int64_t *now_ms, int64_t until_ms) {
    for (; *now_ms < until_ms; *now_ms += 50) {
        for (uint32_t i = 0; i < roll->members && *now_ms % 250 == 0; i++) {
            feddc_beat same = roll->member[i].beat;
            if (i != silent) {
                feddc_roll_beat(roll, i, &same, *now_ms);
            }
        }
        feddc_roll_settle(roll, *now_ms);
    }
}
