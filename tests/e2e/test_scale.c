/* A small bench_scale: the coordinator's memory must not grow with the number of updates. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "scale_run.h"

enum { DEVICES = 200, UPDATES = 120, CONNECTION_BYTES = 64 * 1024 };

FED_TEST(memory_is_flat_in_updates_and_bounded_in_connections) {
    static scale_figures f;
    const scale_plan plan = {.devices = DEVICES,
                             .updates = UPDATES,
                             .active = 16,
                             .checkins = 400,
                             .models = 100,
                             .rounds = 1};
    scale_run(&plan, &f);
    assert_int_equal(f.connected, DEVICES);
    assert_int_equal(f.failures, 0);
    assert_int_equal(f.waiting, DEVICES - UPDATES);
    assert_int_equal(f.woken, f.waiting);
#ifdef FED_SANITIZED
    return;
#endif
    size_t bound = 3 * f.model_bytes + (size_t)DEVICES * CONNECTION_BYTES;
    assert_true(f.pss_waiting - f.pss_idle <= bound);
    for (int k = 0; k < SCALE_STAGES; k++) {
        assert_true(f.pss_updates[k] - f.pss_idle <= bound);
    }
    /* Many more updates have arrived. The heap may grow only by those that are in memory at the
     * same time. */
    assert_true(f.pss_updates[SCALE_STAGES - 1] <=
                f.pss_updates[0] + SCALE_UPLOADS * f.update_bytes);
}
