/* What the main thread of a worker reports, and the watch's thread reads. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_MEMBER_REPORT_H
#define FEDDC_MEMBER_REPORT_H

#include <stdatomic.h>

#include "fedclient/datacenter/control/membership_state.h"

typedef struct feddc_report {
    atomic_uint step, phase, marks;
    atomic_uint compute_us, step_us; /* means of the last steps; 0: not known */
    /* the main thread's own */
    int64_t at_us;                 /* of the last report; 0: there was none */
    int64_t compute_sum, step_sum; /* of the step that goes on */
} feddc_report;

/** The main thread is at this phase of this step now. A step's time is what passes in forward,
 * backward, wait and update; all but the wait is compute time. */
void feddc_report_at(feddc_report *report, feddc_phase phase, uint32_t step, int64_t now_us);

/** Fill in what a heartbeat has of it. */
void feddc_report_read(feddc_report *report, feddc_heartbeat *heartbeat);

#endif
