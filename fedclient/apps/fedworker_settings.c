/* What decides how a worker group trains. A run that goes on from a checkpoint has the same. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/apps/fedworker_settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"

/* One digest of all samples in their order, with their labels or targets. */
static fed_status digest_samples(const fedtrain_dataset *set, uint64_t *digest) {
    const size_t size =
        (size_t)set->shape.c * set->shape.h * set->shape.w * (set->is_float ? sizeof(float) : 1);
    uint64_t *each = calloc(set->count + 2, sizeof *each);
    size_t n = 0;
    FED_REQUIRE(each != NULL, FED_ENOMEM);
    for (size_t b = 0; b < set->block_count; b++) {
        const fedtrain_block *block = &set->block[b];
        for (size_t i = 0; i < block->count && n < set->count; i++) {
            each[n++] = fed_digest_bytes(block->first + i * block->stride, size);
        }
    }
    each[n++] = set->label != NULL ? fed_digest_bytes(set->label, set->count) : 0;
    each[n++] = set->target != NULL ? fed_digest(set->target, set->count) : 0;
    *digest = fed_digest_bytes(each, n * sizeof *each);
    free(each);
    return FED_OK;
}

static fed_status digest_data(const fedtrain_data *data, uint64_t *digest) {
    if (!data->is_text) {
        return digest_samples(&data->set, digest);
    }
    *digest = fed_digest_bytes(data->text.token, data->text.count * sizeof *data->text.token);
    return FED_OK;
}

static void add(fedworker_settings *s, const char *name, const char *value) {
    s->row[s->count++] = (fedworker_setting){.name = name, .value = value != NULL ? value : ""};
}

static void add_number(fedworker_settings *s, const char *name, double value) {
    char *text = s->number[s->count];
    snprintf(text, sizeof s->number[0], "%.9g", value);
    add(s, name, text);
}

fed_status fedworker_settings_make(const fedworker_options *o, const fed_optimizer *optimizer,
                                   const app_samples *samples, fedworker_settings *settings,
                                   fed_error *err) {
    fedworker_settings *s = settings;
    const fedtrain_data *train = &samples->train;
    uint64_t digest = 0;
    s->count = 0;
    FED_TRY(fed_arch_load(o->app.model, &s->arch, err));
    if (digest_data(train, &digest) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the digest of the samples");
    }
    add(s, "model", s->arch.text);
    add(s, "optimizer", o->app.optimizer);
    add(s, "dataset", o->app.dataset);
    add(s, "augment", o->app.augment);
    add_number(s, "batch", o->app.batch);
    add_number(s, "seed", o->app.seed);
    add_number(s, "lr", (double)optimizer->learning_rate);
    char *data = s->number[s->count];
    snprintf(data, sizeof s->number[0], "%zu, %016" PRIx64,
             train->is_text ? train->text.count : train->set.count, digest);
    add(s, "data", data);
    add(s, "normalise", samples->normalise);
    return FED_OK;
}

void fedworker_settings_free(fedworker_settings *settings) {
    fed_arch_free(&settings->arch);
    *settings = (fedworker_settings){0};
}

fed_status fedworker_settings_fit(const fedworker_settings *settings, const char *path,
                                  const fed_checkpoint *file, fed_error *err) {
    for (size_t k = 0; k < settings->count; k++) {
        const fedworker_setting *row = &settings->row[k];
        const char *then = fed_checkpoint_note(file, row->name);
        if (then != NULL && strcmp(then, row->value) != 0) {
            return fed_fail(
                err, FED_EINVAL,
                "--checkpoint %.150s was made with another %s, \"%.80s\" and not \"%.80s\": give "
                "the same, or begin with --init and another --checkpoint",
                path, row->name, then, row->value);
        }
    }
    return FED_OK;
}
