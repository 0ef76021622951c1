/* A worker's main thread reports its phase and step; heartbeats carry the report. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/control/member_report.h"

enum { STEPS = 8 }; /* a mean is taken over about this many steps */

static bool is_of_a_step(unsigned phase) {
    return phase == FEDDC_FORWARD || phase == FEDDC_BACKWARD || phase == FEDDC_WAITING ||
           phase == FEDDC_UPDATING;
}

/* Move the mean by an eighth of the difference. The first value becomes the mean. */
static void fold(atomic_uint *mean, int64_t value) {
    int64_t old = atomic_load_explicit(mean, memory_order_relaxed);
    int64_t now = old == 0 ? value : old + (value - old) / STEPS;
    now = now < 1 ? 1 : now > UINT32_MAX ? UINT32_MAX : now;
    atomic_store_explicit(mean, (unsigned)now, memory_order_relaxed);
}

void feddc_report_at(feddc_report *report, feddc_phase phase, uint32_t step, int64_t now_us) {
    unsigned before = atomic_load_explicit(&report->phase, memory_order_relaxed);
    if (is_of_a_step(before) && report->at_us > 0) {
        int64_t passed = now_us - report->at_us;
        report->step_sum += passed;
        report->compute_sum += before == FEDDC_WAITING ? 0 : passed;
    }
    report->at_us = now_us;
    if (step != atomic_load_explicit(&report->step, memory_order_relaxed)) {
        if (report->step_sum > 0) {
            fold(&report->compute_us, report->compute_sum);
            fold(&report->step_us, report->step_sum);
        }
        report->compute_sum = report->step_sum = 0;
        atomic_store_explicit(&report->step, step, memory_order_relaxed);
    }
    atomic_store_explicit(&report->phase, (unsigned)phase, memory_order_relaxed);
    atomic_fetch_add_explicit(&report->marks, 1, memory_order_relaxed);
}

void feddc_report_read(feddc_report *report, feddc_heartbeat *heartbeat) {
    heartbeat->step = atomic_load_explicit(&report->step, memory_order_relaxed);
    heartbeat->phase = (uint8_t)atomic_load_explicit(&report->phase, memory_order_relaxed);
    heartbeat->marks = atomic_load_explicit(&report->marks, memory_order_relaxed);
    unsigned compute = atomic_load_explicit(&report->compute_us, memory_order_relaxed);
    unsigned step = atomic_load_explicit(&report->step_us, memory_order_relaxed);
    heartbeat->compute_s = (float)compute * 1e-6F;
    heartbeat->step_s = (float)step * 1e-6F;
}
