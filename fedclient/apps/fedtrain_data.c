/* fedtrain's data: open data sets, and normalise them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fed/bytes.h"
#include "fed/params.h"
#include "fedclient/apps/fedtrain.h"

fed_status app_data_open(const app_options *o, const char *part, fedtrain_data *data,
                         fed_error *err) {
    if (o->data == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "--data DIR is missing: give the directory with the files of %s",
                        o->dataset);
    }
    return fedtrain_data_open(o->dataset, o->data, part, o->train_part, data, err);
}

static fed_status take_all(const fedtrain_data *data, fedtrain_share *share, fed_error *err) {
    fedtrain_partition whole;
    FED_TRY(fedtrain_data_split(data, FEDTRAIN_SPLIT_IID, 1, 0, &whole, err));
    fed_status status = fedtrain_share_take(data, &whole, 0, share, err);
    fedtrain_partition_free(&whole);
    return status;
}

size_t app_data_steps(const fedtrain_data *data, const fed_arch *arch, size_t batch) {
    if (!data->is_text) {
        return (data->set.count + batch - 1) / batch;
    }
    size_t window = batch * arch->positions, steps = (data->text.count - 1) / window;
    return steps > 0 ? steps : 1;
}

static fed_status fail_memory(fed_error *err) {
    return fed_fail(err, FED_ENOMEM, "out of memory for the means and deviations of the samples");
}

fed_status app_data_measure(const fedtrain_data *data, char **text, fed_error *err) {
    if (data->is_text) {
        return fed_fail(err, FED_EINVAL,
                        "--normalise is for numbers, which a text does not have: leave it out");
    }
    size_t channels = data->set.shape.c;
    float *mean = malloc(2 * channels * sizeof *mean);
    if (mean == NULL) {
        return fail_memory(err);
    }
    fedtrain_dataset_measure(&data->set, mean, mean + channels);
    fed_writer w;
    fed_writer_growing(&w);
    for (size_t c = 0; c < channels; c++) {
        fed_write_printf(&w, "%s%.9g %.9g", c > 0 ? " " : "", (double)mean[c],
                         (double)mean[channels + c]);
    }
    fed_write_u8(&w, 0);
    free(mean);
    if (w.status != FED_OK) {
        fed_writer_free(&w);
        return fail_memory(err);
    }
    *text = (char *)w.data;
    return FED_OK;
}

static bool take_number(const char **text, float *value) {
    *text += **text == ' ';
    double number = 0;
    bool good = fed_word_number(fed_word_take(text, " "), &number);
    *value = (float)number;
    return good;
}

fed_status app_data_normalise(fedtrain_data *data, const char *text, fed_error *err) {
    size_t channels = data->set.shape.c;
    float *mean = malloc(2 * channels * sizeof *mean + 1);
    if (mean == NULL) {
        return fail_memory(err);
    }
    bool good = true;
    const char *at = text;
    for (size_t c = 0; c < channels; c++) {
        good = good && take_number(&at, &mean[c]) && take_number(&at, &mean[channels + c]);
    }
    fed_status status = FED_EINVAL;
    if (good && *at == '\0') {
        status = fedtrain_dataset_normalise(&data->set, mean, mean + channels);
    }
    free(mean);
    if (status == FED_EINVAL) {
        return fed_fail(err, FED_EFORMAT,
                        "the weights were trained on samples normalised by \"%.60s\", which does "
                        "not fit these samples of %zu channels: is --data the same data set?",
                        text, channels);
    }
    return status == FED_OK ? FED_OK : fail_memory(err);
}

static fed_status parse_augment(const char *text, fedtrain_augment *augment, fed_error *err) {
    static const fed_param params[] = {
        {.key = "crop", .preset = 0, .low = 0, .high = 1024, .help = "pixels", .whole = true},
        {.key = "flip", .preset = 0, .low = 0, .high = 1, .help = "1: mirror", .whole = true},
        {.key = NULL}};
    double value[2];
    char spec[64];
    snprintf(spec, sizeof spec, "%s%s", text[0] != '\0' ? ":" : "", text);
    FED_TRY(fed_params_read("the option", "--augment", params, spec, value, err));
    *augment = (fedtrain_augment){.padding = (uint32_t)value[0], .flip = value[1] != 0};
    return FED_OK;
}

fed_status app_samples_open(const app_options *o, app_samples *samples, fed_error *err) {
    app_samples *s = samples;
    FED_TRY(parse_augment(o->augment, &s->augment, err));
    FED_TRY(app_data_open(o, o->train_part, &s->train, err));
    FED_TRY(app_data_open(o, o->test_part, &s->test, err));
    FED_TRY(take_all(&s->train, &s->share, err));
    if (s->train.is_text && o->augment[0] != '\0') {
        return fed_fail(err, FED_EINVAL,
                        "--augment is for pictures, and this data set is a text: leave it out");
    }
    if (!o->normalise) {
        return FED_OK;
    }
    FED_TRY(app_data_measure(&s->train, &s->normalise, err));
    FED_TRY(app_data_normalise(&s->train, s->normalise, err));
    return app_data_normalise(&s->test, s->normalise, err);
}

void app_samples_free(app_samples *samples) {
    fedtrain_share_free(&samples->share);
    fedtrain_data_free(&samples->test);
    fedtrain_data_free(&samples->train);
    free(samples->normalise);
    *samples = (app_samples){0};
}

void app_score_print(const fedtrain_data *data, const fedtrain_score *score) {
    if (data->is_text) {
        printf("loss %.4f, perplexity %.2f", (double)score->loss, exp((double)score->loss));
    } else if (data->set.target != NULL) {
        printf("mean squared error %.6g", (double)score->loss);
    } else {
        printf("loss %.4f, accuracy %.2f %%", (double)score->loss,
               100.0 * (double)score->correct / (double)score->samples);
    }
}
