/* The reports of a worker's main thread: which part of a step is compute time, which is waiting. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedclient/datacenter/control/member_report.h"

FED_TEST(wait_is_part_of_the_step_but_no_compute_time) {
    feddc_report report = {0};
    feddc_heartbeat heartbeat = {0};
    int64_t now = 1000;
    for (uint32_t step = 0; step < 40; step++) {
        feddc_report_at(&report, FEDDC_FORWARD, step, now);
        feddc_report_at(&report, FEDDC_BACKWARD, step, now + 1000);
        feddc_report_at(&report, FEDDC_WAITING, step, now + 3000);
        feddc_report_at(&report, FEDDC_BACKWARD, step,
                        now + 8000); /* the wait is over, the step is not */
        feddc_report_at(&report, FEDDC_UPDATING, step, now + 9000);
        now += 10000;
        if (step % 10 == 9) { /* an evaluation, which belongs to no step */
            feddc_report_at(&report, FEDDC_EVALUATING, step, now);
            now += 1000000;
        }
    }
    feddc_report_read(&report, &heartbeat);
    assert_int_equal(heartbeat.step, 39);
    assert_int_equal(heartbeat.phase, FEDDC_EVALUATING);
    assert_int_equal(heartbeat.marks, 40 * 5 + 4);
    assert_true(heartbeat.compute_s > 0.00499F && heartbeat.compute_s < 0.00501F);
    assert_true(heartbeat.step_s > 0.00999F && heartbeat.step_s < 0.01001F);
}

FED_TEST(nothing_is_known_before_a_step_is_over) {
    feddc_report report = {0};
    feddc_heartbeat heartbeat = {0};
    feddc_report_at(&report, FEDDC_STARTING, 0, 10);
    feddc_report_at(&report, FEDDC_FORWARD, 0, 5000000);
    feddc_report_at(&report, FEDDC_BACKWARD, 0, 5000100);
    feddc_report_read(&report, &heartbeat);
    assert_true(heartbeat.compute_s == 0);
    assert_true(heartbeat.step_s == 0);
    feddc_report_at(&report, FEDDC_FORWARD, 1, 5000200);
    feddc_report_read(&report, &heartbeat);
    /* The time in FEDDC_STARTING is not part of the first step. */
    assert_true(heartbeat.step_s > 0.0001F && heartbeat.step_s < 0.0003F);
}

FED_TEST(the_mean_follows_a_change) {
    feddc_report report = {0};
    feddc_heartbeat heartbeat = {0};
    int64_t now = 1;
    for (uint32_t step = 0; step < 100; step++) {
        feddc_report_at(&report, FEDDC_FORWARD, step, now);
        now += step < 50 ? 1000 : 9000;
    }
    feddc_report_read(&report, &heartbeat);
    assert_true(heartbeat.compute_s > 0.0085F && heartbeat.compute_s <= 0.009F);
}
