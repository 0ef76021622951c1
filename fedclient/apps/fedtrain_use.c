/* fedtrain evaluate and export: uses of trained weights. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fedclient/apps/fedtrain.h"
#include "fedtrain/onnx.h"

/* Normalise the test samples by the means and deviations in the file of weights. If the file has
 * none and --normalise is given, measure them on the training part. */
static fed_status normalise(const app_options *o, const fed_checkpoint *file, fedtrain_data *test,
                            fed_error *err) {
    const char *note = fed_checkpoint_note(file, "normalise");
    if (note != NULL && note[0] != '\0') {
        return app_data_normalise(test, note, err);
    }
    if (!o->normalise) {
        return FED_OK;
    }
    fedtrain_data train = {0};
    char *text = NULL;
    FED_TRY(app_data_open(o, o->train_part, &train, err));
    fed_status status = app_data_measure(&train, &text, err);
    fedtrain_data_free(&train);
    if (status == FED_OK) {
        status = app_data_normalise(test, text, err);
    }
    free(text);
    return status;
}

static fed_status score(const app_options *o, const app_weights *w, const fedtrain_data *test,
                        fed_error *err) {
    fedtrain_net *net = NULL;
    FED_TRY(app_net_new(o, &w->arch, &net, err));
    fedtrain_score result = {0};
    fed_status status = fedtrain_data_score(net, o->batch, test, w->values, &result, err);
    fedtrain_net_free(net);
    FED_TRY(status);
    app_score_print(test, &result);
    if (test->set.target != NULL) {
        printf(" (%zu samples)\n", result.samples);
        return FED_OK;
    }
    printf(" (%zu of %zu %s)\n", result.correct, result.samples,
           test->is_text ? "words foreseen" : "right");
    return FED_OK;
}

fed_status app_evaluate(const app_options *o, fed_error *err) {
    app_weights weights = {0};
    fedtrain_data test = {0};
    fed_checkpoint *file = NULL;
    FED_TRY(app_weights_open(o, &weights, &file, err));
    fed_status status = app_data_open(o, o->test_part, &test, err);
    if (status == FED_OK) {
        status = normalise(o, file, &test, err);
    }
    if (status == FED_OK) {
        status = score(o, &weights, &test, err);
    }
    fedtrain_data_free(&test);
    app_weights_free(&weights);
    fed_checkpoint_close(file);
    return status;
}

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), end_len = strlen(end);
    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

static fed_status write_weights(const app_weights *w, const fed_checkpoint *file, const char *path,
                                fed_error *err) {
    const char *normalise = fed_checkpoint_note(file, "normalise");
    const char *const notes[] = {
        "format",  "pt", "model", w->arch.text, normalise != NULL ? "normalise" : NULL,
        normalise, NULL};
    if (ends_with(path, ".onnx")) {
        return fedtrain_onnx_save(path, &w->arch, w->values, notes + 2, err);
    }
    if (ends_with(path, ".safetensors")) {
        return fed_checkpoint_save(path, &w->arch.layout, w->values, notes, err);
    }
    return fed_fail(err, FED_EINVAL, "%s: the name must end with the format: .onnx or .safetensors",
                    path);
}

fed_status app_export(const app_options *o, fed_error *err) {
    if (o->word_count == 0) {
        return fed_fail(err, FED_EINVAL,
                        "export needs a file to write: OUT.onnx or "
                        "OUT.safetensors");
    }
    app_weights weights = {0};
    fed_checkpoint *file = NULL;
    FED_TRY(app_weights_open(o, &weights, &file, err));
    fed_status status = write_weights(&weights, file, o->words[0], err);
    app_weights_free(&weights);
    fed_checkpoint_close(file);
    return status;
}
