/* What decides how a worker group trains. To go on from a checkpoint, it must be the same. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/apps/fedworker_settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/bytes.h"
#include "fed/gpu.h"
#include "fed/hash.h"
#include "fedtrain/backend.h"

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

static void add_number(fedworker_settings *s, const char *name, uint32_t value) {
    char *text = s->number[s->count];
    snprintf(text, sizeof s->number[0], "%" PRIu32, value);
    add(s, name, text);
}

static void add_rate(fedworker_settings *s, const char *name, double value) {
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
    s->text[0] = '\0';
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
    add_rate(s, "lr", (double)optimizer->learning_rate);
    char *data = s->number[s->count];
    snprintf(data, sizeof s->number[0], "%zu, %016" PRIx64,
             train->is_text ? train->text.count : train->set.count, digest);
    add(s, "data", data);
    add(s, "normalise", samples->normalise);
    return FED_OK;
}

/* ---- the text for the failure detector ---- */

enum { SHORT = 64, MODEL = 500 /* most bytes of a value, and of the model */ };

static void write_line(fed_writer *w, const char *name, const char *value, size_t most) {
    const size_t len = strlen(value);
    fed_write_printf(w, "%s=", name);
    for (size_t k = 0; k < len && k < most; k++) {
        fed_write_printf(w, "%c", value[k] == '\n' ? ' ' : value[k]);
    }
    if (len > most) {
        fed_write_printf(w, "#%016" PRIx64, fed_digest_bytes(value, len));
    }
    fed_write_printf(w, "\n");
}

/* A digest of the weights of --init, or "" if there is none. */
static fed_status digest_init(const fedworker_options *o, char text[17], fed_error *err) {
    app_weights weights = {0};
    text[0] = '\0';
    if (o->app.init == NULL) {
        return FED_OK;
    }
    fed_status status = app_weights_new(o->app.model, NULL, o->app.seed, &weights, err);
    if (status == FED_OK) {
        status = app_weights_init(&o->app, &weights, err);
    }
    if (status == FED_OK) {
        snprintf(text, 17, "%016" PRIx64, fed_digest(weights.values, weights.layout.size));
    }
    app_weights_free(&weights);
    return status;
}

static const char *backend_of(const fedworker_options *o) {
    const char *name = o->app.backend != NULL ? o->app.backend : fedtrain_backend_name(0);
    return fed_gpu_is_name(name) ? "gpu" : name;
}

static const char *or_float32(const char *codec) {
    return codec != NULL ? codec : "float32";
}

static void write_count(fed_writer *w, const char *name, uint32_t count) {
    char text[16];
    snprintf(text, sizeof text, "%" PRIu32, count);
    write_line(w, name, count > 0 ? text : "", SHORT);
}

static void write_options(fed_writer *w, const fedworker_options *o,
                          const fedworker_choice *choice) {
    const struct {
        const char *name, *value;
    } row[] = {{"collective", choice->collective},
               {"sync", o->sync},
               {"codec", or_float32(o->codec)},
               {"pull", or_float32(o->pull)},
               {"pull-as", choice->at_owners ? "model" : "sum"},
               {"nic", o->nic != NULL ? o->nic : ""},
               {"backend", backend_of(o)}};
    for (size_t k = 0; k < sizeof row / sizeof row[0]; k++) {
        write_line(w, row[k].name, row[k].value, SHORT);
    }
    write_count(w, "small", o->small);
    write_count(w, "bucket", o->bucket);
    write_count(w, "late", o->late);
    write_count(w, "epochs", o->app.epochs);
    write_count(w, "steps", o->app.steps);
    write_count(w, "every", o->every);
}

fed_status fedworker_settings_tell(const fedworker_options *o, const fedworker_choice *choice,
                                   fedworker_settings *settings, fed_error *err) {
    fed_writer w;
    char init[17], local[32] = "";
    FED_TRY(digest_init(o, init, err));
    fed_writer_fixed(&w, settings->text, sizeof settings->text);
    for (size_t k = 0; k < settings->count; k++) {
        const fedworker_setting *row = &settings->row[k];
        if (strcmp(row->name, "dataset") != 0) { /* the samples have a digest */
            write_line(&w, row->name, row->value, strcmp(row->name, "model") == 0 ? MODEL : SHORT);
        }
    }
    write_options(&w, o, choice);
    if (o->local_rate > 0) {
        snprintf(local, sizeof local, "%.9g", (double)o->local_rate);
    }
    write_line(&w, "local-lr", local, SHORT);
    write_line(&w, "init", init, SHORT);
    /* All ranks write their parts of a checkpoint together, and join their traces at the end. */
    write_line(&w, "checkpoint", o->app.checkpoint != NULL ? "yes" : "no", SHORT);
    write_line(&w, "trace", o->trace != NULL ? "yes" : "no", SHORT);
    return w.status == FED_OK ? FED_OK
                              : fed_fail(err, w.status,
                                         "the options are too long together for a "
                                         "worker group of several processes");
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
