/* A worker's main thread reports its phase and step here; the watch's thread reads the report. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_MEMBER_REPORT_H
#define FEDDC_MEMBER_REPORT_H

#include <stdatomic.h>

#include "fedclient/datacenter/control/membership_state.h"

typedef struct feddc_report {
    atomic_uint step, phase, marks;
    atomic_uint compute_us, step_us; /* means over the last steps; 0: not known */
    /* used by the main thread only: */
    int64_t at_us;
    int64_t compute_sum, step_sum; /* microseconds of the current step so far */
} feddc_report;

/** Report that the main thread begins this phase of this step. A step's time is the time spent in
 * forward, backward, waiting and updating; all but waiting is compute time. */
void feddc_report_at(feddc_report *report, feddc_phase phase, uint32_t step, int64_t now_us);

void feddc_report_read(feddc_report *report, feddc_heartbeat *heartbeat);

#endif
