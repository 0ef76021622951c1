/* Check which model can be trained on which data. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/fits.h"

#include <inttypes.h>

#include "fedclient/train/gather.h"
#include "fedclient/train/text_walk.h"

static bool is_flat(fed_shape shape) {
    return shape.h == 1 && shape.w == 1;
}

/* A vector also fits a picture of as many values, as sample or as input. */
static bool shapes_fit(fed_shape sample, fed_shape input) {
    bool same = sample.c == input.c && sample.h == input.h && sample.w == input.w;
    return same || ((is_flat(sample) || is_flat(input)) &&
                    fedtrain_shape_size(sample) == fedtrain_shape_size(input));
}

/* Classes need the cross-entropy as the model's loss, targets the squared error. */
static fed_status check_loss(const fedtrain_dataset *set, const fed_arch *arch, fed_error *err) {
    const bool targets = fedtrain_has_targets(set), squared = arch->loss == FED_LOSS_SQUARED;
    if (targets && !squared) {
        return fed_fail(err, FED_EINVAL,
                        "the data has numbers to predict, the model tells classes apart: end the "
                        "model with \"dense 1 | mse\"");
    }
    if (squared && !targets) {
        return fed_fail(err, FED_EINVAL,
                        "the data has classes, the model predicts numbers (mse): open a table as "
                        "csv:target=COLUMN");
    }
    if (targets && arch->classes != 1) {
        return fed_fail(err, FED_EINVAL,
                        "the data has one number to predict for each sample, the model gives "
                        "%" PRIu32 ": end the model with \"dense 1 | mse\"",
                        arch->classes);
    }
    return FED_OK;
}

fed_status fedtrain_dataset_fits(const fedtrain_dataset *set, const fed_arch *arch,
                                 fed_error *err) {
    FED_TRY(fed_arch_require_layers(arch, err));
    if (arch->words > 0 || arch->positions > 1) {
        return fed_fail(err, FED_EINVAL,
                        "a data set has values, and a class or a number for each sample, but the "
                        "model takes or gives something else");
    }
    FED_TRY(check_loss(set, arch, err));
    if (!shapes_fit(set->shape, arch->input)) {
        return fed_fail(err, FED_EINVAL,
                        "samples are %zu values (%" PRIu32 "x%" PRIu32 "x%" PRIu32
                        "), the model takes %zu (%" PRIu32 "x%" PRIu32 "x%" PRIu32 ")",
                        fedtrain_shape_size(set->shape), set->shape.c, set->shape.h, set->shape.w,
                        fedtrain_shape_size(arch->input), arch->input.c, arch->input.h,
                        arch->input.w);
    }
    if (set->classes > arch->classes) {
        return fed_fail(err, FED_EINVAL,
                        "the data has labels up to %" PRIu32 ", the model knows %" PRIu32
                        " classes, 0 to %" PRIu32,
                        set->classes - 1, arch->classes, arch->classes - 1);
    }
    return FED_OK;
}

fed_status fedtrain_text_fits(const fedtrain_text *text, const fed_arch *arch, fed_error *err) {
    FED_TRY(fed_arch_require_layers(arch, err));
    FED_TRY(fedtrain_text_check_arch(arch, err));
    return fedtrain_text_check_tokens(arch, text->token, text->count, err);
}
