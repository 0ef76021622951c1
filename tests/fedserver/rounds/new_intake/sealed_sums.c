/* A form of updates that the coordinator cannot read. It counts such an update and adds 0. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedserver/rounds/intake.h"

extern const fedserver_intake fedserver_intake_sealed;

enum { SEALED = 4 };

static bool takes(const fedserver_task *task) {
    return strncmp(task->name, "sealed", strlen("sealed")) == 0;
}

static fed_status most_bytes(const fedserver_task *task, const fed_layout *layout,
                             const fedserver_phase *phase, uint64_t *most, fed_error *err) {
    (void)task;
    (void)layout;
    (void)phase;
    (void)err;
    *most = SEALED;
    return FED_OK;
}

static fed_status open_sealed(const fedserver_task *task, const fed_layout *layout,
                              fedserver_update *update, fed_error *why) {
    (void)task;
    (void)layout;
    return update->envelope_len == SEALED
               ? FED_OK
               : fed_fail(why, FED_EFORMAT, "a masked update has %d bytes", SEALED);
}

static void drop(fedserver_update *update) {
    (void)update;
}

static fed_status add(fedserver_sum *sum, const fedserver_update *update,
                      const fedserver_contribution *contribution, fed_error *err) {
    (void)update;
    FED_TRY(fedserver_sum_reserve(sum, err));
    fedserver_sum_note(sum, contribution);
    return FED_OK;
}

static fed_status combine(fedserver_rounds *rounds, fedserver_training *t,
                          fedserver_weights *weights, float *change, fed_error *err) {
    bool refold = false;
    (void)rounds;
    memset(change, 0, t->sum.size * sizeof *change);
    return fedserver_sum_settle(&t->sum, t->task.device_share, weights, &refold, err);
}

const fedserver_intake fedserver_intake_sealed = {
    .name = "sealed",
    .takes = takes,
    .most_bytes = most_bytes,
    .open = open_sealed,
    .drop = drop,
    .add = add,
    .combine = combine,
};
