/* The form `plain` of updates: values in an envelope of the task's codec. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "fedserver/rounds/combine.h"
#include "fedserver/rounds/intake.h"

extern const fedserver_intake fedserver_intake_plain;

static fed_status most_bytes(const fedserver_task *task, const fed_layout *layout,
                             const fedserver_phase *phase, uint64_t *most, fed_error *err) {
    fedcodec codec[2];
    FED_TRY(fedcodec_parse_pair(phase->codec_up, task->wire.codec_variates, codec, err));
    *most = fedcodec_envelope_bound(codec, layout, task->wire.small_tensor);
    return FED_OK;
}

static fed_status check_loss(const fed_update *head, fed_error *err) {
    if (!isnan(head->loss) && fabsf(head->loss) > FEDSERVER_LOSS_LIMIT) {
        return fed_fail(
            err, FED_ERANGE,
            "the update's loss is %g; up to %g is plausible: has its training diverged?",
            (double)head->loss, (double)FEDSERVER_LOSS_LIMIT);
    }
    return FED_OK;
}

static fed_status check_range(const fedserver_update *update, fed_error *why) {
    if (update->values.max_abs > FEDCODEC_FOLD_LIMIT) {
        return fed_fail(why, FED_ERANGE,
                        "the update has a value of magnitude %g; the sum takes up to %g",
                        (double)update->values.max_abs, (double)FEDCODEC_FOLD_LIMIT);
    }
    return check_loss(&update->head, why);
}

static void drop(fedserver_update *update) {
    fedcodec_message_close(&update->values);
}

static fed_status open_values(const fedserver_task *task, const fed_layout *layout,
                              fedserver_update *update, fed_error *why) {
    const fedserver_phase phase = fedserver_phase_of(task, update->head.round);
    fedcodec codec[2];
    FED_TRY(fedcodec_parse_pair(phase.codec_up, task->wire.codec_variates, codec, why));
    FED_TRY(fedcodec_message_open(update->envelope, update->envelope_len, layout, codec,
                                  task->wire.small_tensor, &update->values, why));
    const fed_status status = check_range(update, why);
    if (status != FED_OK) {
        drop(update);
    }
    return status;
}

static fed_status add(fedserver_sum *sum, const fedserver_update *update,
                      const fedserver_contribution *contribution, fed_error *err) {
    /* D3 in docs/durability.md: the integer sum can't overflow. */
    assert(update->values.max_abs <= FEDCODEC_FOLD_LIMIT);
    return fedserver_sum_add(sum, &update->values, *contribution, err);
}

const fedserver_intake fedserver_intake_plain = {
    .name = "plain",
    .most_bytes = most_bytes,
    .open = open_values,
    .drop = drop,
    .add = add,
    .combine = fedserver_combine,
};
