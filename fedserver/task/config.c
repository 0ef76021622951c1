/* Checks that a task file's values fit together. Replaces models and codecs by their canonical
 * texts, and makes the first model. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/task/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/arch.h"
#include "fed/checkpoint.h"
#include "fed/file.h"
#include "fed/layout_reference.h"
#include "fed/optimizer_spec.h"
#include "fed/point.h"
#include "fed/private_layers.h"
#include "fed/utf8.h"
#include "fedcodec/ring.h"
#include "fedserver/strategies/strategy.h"
#include "fedserver/task/auto_codec.h"
#include "fedserver/task/phases.h"
#include "fedserver/task/private_task.h"
#include "fedserver/task/task_source.h"

typedef fedserver_source source;

static fed_status refuse_value(const source *s, fedserver_field_id id, const fed_error *why,
                               fed_error *err) {
    return fedserver_source_explain(s, id, why->text, err);
}

static fed_status take_codec(const source *s, fedserver_field_id id, char spec[FEDCODEC_SPEC],
                             fed_error *err) {
    fedcodec codec;
    fed_error why = {0};
    if (fedcodec_parse(spec, &codec, &why) != FED_OK) {
        return refuse_value(s, id, &why, err);
    }
    fedcodec_format(&codec, spec);
    return FED_OK;
}

static fed_status take_codec_not_ring(const source *s, fedserver_field_id id,
                                      char spec[FEDCODEC_SPEC], fed_error *err) {
    fedcodec codec;
    if (fedcodec_parse(spec, &codec, NULL) == FED_OK && fedcodec_is_ring(codec.vtable)) {
        const fed_error why = {.text = "ring is for updates of private tasks, in codec_up"};
        return refuse_value(s, id, &why, err);
    }
    return take_codec(s, id, spec, err);
}

static fed_status whole_model(const fedserver_config *config, fed_arch *arch, fed_error *err) {
    const char *text = config->layout != NULL ? config->layout : config->task.wire.model;
    return fed_arch_parse(text, arch, err);
}

fed_status fedserver_config_model(const fedserver_config *config, fed_arch *arch, fed_error *err) {
    FED_TRY(whole_model(config, arch, err));
    const fed_status status = fed_arch_share(arch, config->task.wire.private_layers, err);
    if (status != FED_OK) {
        fed_arch_free(arch);
    } else if (config->task.wire.codec_variates[0] != '\0') {
        fed_arch_code_variates(arch);
    }
    return status;
}

void fedserver_config_free(fedserver_config *config) {
    free(config->layout);
    config->layout = NULL;
}

/* As take_codec for codec_up, which may leave the choice to the coordinator. */
static fed_status take_codec_up(const source *s, const fedserver_config *config,
                                fedserver_phase *phase, fed_error *err) {
    fed_error why = {0};
    if (!fedserver_codec_is_auto(phase->codec_up)) {
        phase->codec_up_asked[0] = '\0'; /* a phase has it of the phase before */
        return take_codec(s, FEDSERVER_FIELD_CODEC_UP, phase->codec_up, err);
    }
    fed_arch arch;
    memcpy(phase->codec_up_asked, phase->codec_up, sizeof phase->codec_up_asked);
    FED_TRY(fedserver_config_model(config, &arch, err));
    const fed_status status =
        fedserver_codec_choose(&arch.layout, config->task.wire.small_tensor, phase->codec_up, &why);
    fed_arch_free(&arch);
    return status == FED_OK ? FED_OK : refuse_value(s, FEDSERVER_FIELD_CODEC_UP, &why, err);
}

/* Refuse the key codec_up_asked, which only the coordinator writes. */
static fed_status check_not_asked(const source *s, bool given, fed_error *err) {
    const fed_error why = {.text = "the coordinator writes it; ask with \"codec_up\": "
                                   "\"auto:bytes=N\", and leave this key out"};
    return given ? refuse_value(s, FEDSERVER_FIELD_CODEC_UP_ASKED, &why, err) : FED_OK;
}

/* Make the path of a file that a task names, relative to the task file. A path that is too long
 * becomes "". */
static void path_beside(const source *s, const char *file, char *dst, size_t cap) {
    const char *slash = strrchr(s->path, '/');
    bool relative = file[0] != '\0' && file[0] != '/' && slash != NULL;
    const int before = relative ? (int)(slash - s->path) + 1 : 0;
    const int len = snprintf(dst, cap, "%.*s%s", before, s->path, file);
    if (len < 0 || (size_t)len >= cap) {
        dst[0] = '\0';
    }
}

/* The task has the helper's keys; its file may name a file with them, such as helper.pem. */
static fed_status take_helper(const source *s, fedserver_task *task, fed_error *err) {
    fed_points keys;
    char file[1024], *helper = task->helper;
    fed_error why = {0};
    if (helper[0] == '\0') {
        return FED_OK;
    }
    if (fed_points_read(helper, &keys, &why) != FED_OK) {
        path_beside(s, helper, file, sizeof file);
        if (fed_points_load(file, &keys, &why) != FED_OK) {
            const fed_error both = {.text = "it is neither a helper's seal key, 130 hex digits, "
                                            "nor the path of a file with one, such as the "
                                            "helper's helper.pem"};
            return refuse_value(s, FEDSERVER_FIELD_HELPER, why.status == FED_EFORMAT ? &why : &both,
                                err);
        }
    }
    fed_points_write(&keys, helper);
    return FED_OK;
}

/* A text that is too long for the task becomes the config's layout, and the task names it. */
static fed_status take_model(const source *s, fedserver_config *config, fed_error *err) {
    char *model = config->task.wire.model;
    char file[FED_ARCH_TEXT] = "@";
    if (model[0] == '@') {
        path_beside(s, model + 1, file + 1, sizeof file - 1);
    }
    fed_arch arch;
    fed_error why = {0};
    const char *text = config->layout != NULL ? config->layout : model;
    if (fed_arch_load(model[0] == '@' ? file : text, &arch, &why) != FED_OK) {
        return refuse_value(s, FEDSERVER_FIELD_MODEL, &why, err);
    }
    fedserver_config_free(config);
    fed_layout_name(&arch, model);
    if (fed_layout_is_reference(model)) {
        config->layout = arch.text;
        arch.text = NULL;
    }
    fed_arch_free(&arch);
    return FED_OK;
}

/* A text of a task file's model may be longer than the member of fed_task: move it to
 * config->layout, and leave a short one in its place. */
static fed_status move_long_model(const source *s, fedserver_config *config, fed_error *err) {
    const char *name = fedserver_fields[FEDSERVER_FIELD_MODEL].name;
    const char *text = json_string_value(json_object_get(s->root, name));
    if (text == NULL || text[0] == '@' || strlen(text) < sizeof config->task.wire.model) {
        return FED_OK;
    }
    config->layout = strdup(text);
    if (config->layout == NULL ||
        json_object_set_new(s->root, name, json_string("vector 1")) != 0) {
        fedserver_config_free(config);
        return fed_fail(err, FED_ENOMEM, "out of memory for a model's text");
    }
    return FED_OK;
}

/* Do the private layers fit the model? */
static fed_status check_private_layers(const source *s, const fedserver_config *config,
                                       fed_error *err) {
    fed_arch arch;
    fed_error why = {0};
    if (config->task.wire.private_layers[0] == '\0') {
        return FED_OK;
    }
    const fed_status status = fedserver_config_model(config, &arch, &why);
    if (status != FED_OK) {
        return refuse_value(s, FEDSERVER_FIELD_PRIVATE_LAYERS, &why, err);
    }
    fed_arch_free(&arch);
    return FED_OK;
}

/* SCAFFOLD's control variate is sent as a part of the model, which must have room for it. */
static fed_status check_scaffold(const source *s, const fedserver_config *config, fed_error *err) {
    fed_arch arch;
    FED_TRY(fedserver_config_model(config, &arch, err));
    bool scaffold = arch.scaffold;
    fed_arch_free(&arch);
    const fed_error why = {.text = "+scaffold needs a model that ends with \"| scaffold\""};
    return scaffold ? FED_OK : refuse_value(s, FEDSERVER_FIELD_OPTIMIZER, &why, err);
}

static fed_status check_mask(const source *s, const char *codec_up, fed_error *err) {
    fedcodec codec;
    fedserver_codec_trial trial;
    FED_TRY(fedcodec_parse(codec_up, &codec, err));
    if (fedcodec_is_ring(codec.vtable)) {
        const fed_error ring = {.text =
                                    "+mask sets the momentum of values that were sent to 0, and "
                                    "updates of codec ring send all values, or others in each "
                                    "round; leave +mask out"};
        return refuse_value(s, FEDSERVER_FIELD_OPTIMIZER, &ring, err);
    }
    FED_TRY(fedserver_codec_try(&codec, &trial, err));
    const fed_error why = {.text = "+mask sets the momentum of values that were sent to 0, and "
                                   "with this codec_up all values are sent, so no momentum would "
                                   "be left; let codec_up be dgc, sbc or another codec that sends "
                                   "a part of them"};
    return trial.sent <= FEDSERVER_SENDS_ALL
               ? FED_OK
               : refuse_value(s, FEDSERVER_FIELD_OPTIMIZER, &why, err);
}

/* Check a phase's codecs and optimizer. The optimizer's text stays as it is in the file, and the
 * learning rate becomes the one that the optimizer uses. */
static fed_status take_phase(const source *s, const fedserver_config *config,
                             fedserver_phase *phase, fed_optimizer *optimizer, fed_error *err) {
    fed_error why = {0};
    FED_TRY(take_codec_up(s, config, phase, err));
    FED_TRY(take_codec_not_ring(s, FEDSERVER_FIELD_CODEC_DOWN, phase->codec_down, err));
    if (fed_optimizer_parse(phase->optimizer, phase->learning_rate, optimizer, &why) != FED_OK) {
        return refuse_value(s, FEDSERVER_FIELD_OPTIMIZER, &why, err);
    }
    if (optimizer->scaffold_share > 0) {
        FED_TRY(check_scaffold(s, config, err));
    }
    if (optimizer->mask) {
        FED_TRY(check_mask(s, phase->codec_up, err));
    }
    phase->learning_rate = (float)optimizer->learning_rate;
    return FED_OK;
}

static fed_status take_rules(const source *s, fedserver_round_rules *rules, fed_error *err) {
    /* The default of the goal is the cohort, and that of the cohort 130 % of the goal. At Google 6
     * to 10 % of devices drop out (Bonawitz et al., "Towards federated learning at scale",
     * 2019). */
    if (rules->goal == 0 && rules->cohort == 0) {
        return fed_fail(err, FED_EINVAL,
                        "%s: key \"goal\" is missing, the number of updates that complete a "
                        "round; or give \"cohort\", the number of devices that may train in one",
                        s->path);
    }
    if (rules->goal == 0) {
        rules->goal = rules->cohort;
    } else if (rules->cohort == 0) {
        rules->cohort = (rules->goal * 13 + 9) / 10;
    }
    if (rules->goal > rules->cohort && rules->staleness == 0) {
        return fed_fail(
            err, FED_EINVAL, "%s:%d: key \"goal\" is %u; it must be at most cohort, which is %u",
            s->path, fedserver_source_line(s, FEDSERVER_FIELD_GOAL), rules->goal, rules->cohort);
    }
    if (rules->minimum > rules->goal) {
        return fed_fail(err, FED_EINVAL,
                        "%s:%d: key \"minimum\" is %u; it must be at most goal, which is %u",
                        s->path, fedserver_source_line(s, FEDSERVER_FIELD_MINIMUM), rules->minimum,
                        rules->goal);
    }
    return FED_OK;
}

static fed_status fit_strategy(const fedserver_task *task, const char *codec_spec, fed_error *why) {
    fedserver_strategy strategy;
    fedcodec codec_up;
    FED_TRY(fedserver_strategy_parse(task->strategy, &strategy, why));
    FED_TRY(fedcodec_parse(codec_spec, &codec_up, why));
    return fedserver_task_groups(task) > 1 /* it runs over sums, which have all values */
               ? FED_OK
               : fedserver_strategy_check(&strategy, task->rules.minimum, task->rules.goal,
                                          &codec_up, why);
}

/* Check the codec of the control variates, which must be there, and be combined by the strategy. */
static fed_status take_codec_variates(const source *s, fedserver_task *task,
                                      const fed_optimizer *optimizer, fed_error *err) {
    char *spec = task->wire.codec_variates;
    fed_error why = {0};
    if (spec[0] == '\0') {
        return FED_OK;
    }
    if (optimizer->scaffold_share == 0) {
        const fed_error none = {.text = "only an optimizer with +scaffold has control variates; "
                                        "leave this key out"};
        return refuse_value(s, FEDSERVER_FIELD_CODEC_VARIATES, &none, err);
    }
    FED_TRY(take_codec_not_ring(s, FEDSERVER_FIELD_CODEC_VARIATES, spec, err));
    return fit_strategy(task, spec, &why) == FED_OK
               ? FED_OK
               : refuse_value(s, FEDSERVER_FIELD_CODEC_VARIATES, &why, err);
}

static bool remembers_the_same(const fed_optimizer *a, const fed_optimizer *b) {
    return a->rule == b->rule && (a->warmup_steps > 0) == (b->warmup_steps > 0) &&
           (a->step_every > 0) == (b->step_every > 0) &&
           (a->cosine_steps > 0) == (b->cosine_steps > 0) &&
           (a->stall_window > 0) == (b->stall_window > 0) && (a->prox_mu > 0) == (b->prox_mu > 0) &&
           (a->scaffold_share > 0) == (b->scaffold_share > 0);
}

/* An optimizer that names lr decides. A learning_rate beside it may say the same, as in the text
 * that the store keeps. */
static fed_status check_rate(const source *s, bool given, float written,
                             const fed_optimizer *optimizer, fed_error *err) {
    const fed_error why = {.text = "it changes nothing, since the optimizer names lr itself; leave "
                                   "one of the two out"};
    return given && optimizer->learning_rate != (double)written
               ? refuse_value(s, FEDSERVER_FIELD_LEARNING_RATE, &why, err)
               : FED_OK;
}

static fed_status check_optimizer(const source *s, const fedserver_task *task, uint32_t k,
                                  float written, const fed_optimizer *optimizer, fed_error *err) {
    fed_optimizer first;
    FED_TRY(fed_optimizer_parse(task->wire.optimizer, task->wire.learning_rate, &first, err));
    if (!remembers_the_same(&first, optimizer)) {
        const fed_error why = {.text = "devices keep the state of the task's optimizer from phase "
                                       "to phase, so a phase may change its parameters, but not "
                                       "its name or its + parts"};
        return refuse_value(s, FEDSERVER_FIELD_OPTIMIZER, &why, err);
    }
    const bool given = fedserver_source_has(s, k, FEDSERVER_FIELD_LEARNING_RATE);
    return check_rate(s, given, written, optimizer, err);
}

static fed_status take_later(const source *s, fedserver_config *config, uint32_t k,
                             fed_error *err) {
    fedserver_task *task = &config->task;
    fedserver_phase *phase = &task->phases[k];
    const float written = phase->learning_rate;
    fed_optimizer optimizer;
    fed_error why = {0};
    if (phase->round <= fedserver_phase_at(task, k).round || phase->round > task->rules.rounds) {
        char found[40];
        snprintf(found, sizeof found, "%u", phase->round);
        return fedserver_source_refuse(s, FEDSERVER_FIELD_ROUND, found, err);
    }
    FED_TRY(check_not_asked(s, fedserver_source_has(s, k, FEDSERVER_FIELD_CODEC_UP_ASKED), err));
    FED_TRY(take_phase(s, config, phase, &optimizer, err));
    FED_TRY(check_optimizer(s, task, k, written, &optimizer, err));
    return fit_strategy(task, phase->codec_up, &why) == FED_OK
               ? FED_OK
               : refuse_value(s, FEDSERVER_FIELD_CODEC_UP, &why, err);
}

static fed_status check_downloads(const source *s, const char *url, fed_error *err) {
    fed_error why = {0};
    return fed_cache_url_check(url, &why) == FED_OK
               ? FED_OK
               : refuse_value(s, FEDSERVER_FIELD_DOWNLOADS, &why, err);
}

/* Names and tags go into lines of logs and lists. */
static fed_status check_shown(const source *s, fedserver_field_id field, const char *text,
                              fed_error *err) {
    const fed_error why = {.text = "it has a line end, an invisible character or another one that "
                                   "a list can't show; leave it out"};
    return fed_utf8_shown(text) ? FED_OK : refuse_value(s, field, &why, err);
}

static void note(fedserver_faults *f, fedserver_field_id id, fed_status status, fed_error *fault) {
    fedserver_faults_note(f, fedserver_fields[id].name, status, fault);
    *fault = (fed_error){0};
}

/* Check the values that can be right or wrong by themselves. */
static fed_status check_each(const source *s, fedserver_config *config, fed_error *err) {
    fedserver_task *task = &config->task;
    fedserver_phase first = fedserver_phase_at(task, 0);
    fed_optimizer optimizer;
    fedserver_faults f = {.status = FED_OK};
    fed_error fault = {0}, why = {0};
    note(&f, FEDSERVER_FIELD_NAME, check_shown(s, FEDSERVER_FIELD_NAME, task->name, &fault),
         &fault);
    note(&f, FEDSERVER_FIELD_TAG, check_shown(s, FEDSERVER_FIELD_TAG, task->tag, &fault), &fault);
    note(&f, FEDSERVER_FIELD_HELPER, take_helper(s, task, &fault), &fault);
    note(&f, FEDSERVER_FIELD_MODEL, take_model(s, config, &fault), &fault);
    if (f.status == FED_OK) {
        note(&f, FEDSERVER_FIELD_PRIVATE_LAYERS, check_private_layers(s, config, &fault), &fault);
    }
    note(&f, FEDSERVER_FIELD_CODEC_UP_ASKED,
         check_not_asked(s, first.codec_up_asked[0] != '\0', &fault), &fault);
    if (f.status == FED_OK || !fedserver_codec_is_auto(first.codec_up)) {
        note(&f, FEDSERVER_FIELD_CODEC_UP, take_codec_up(s, config, &first, &fault), &fault);
    }
    note(&f, FEDSERVER_FIELD_CODEC_DOWN,
         take_codec_not_ring(s, FEDSERVER_FIELD_CODEC_DOWN, first.codec_down, &fault), &fault);
    if (fed_optimizer_parse(first.optimizer, first.learning_rate, &optimizer, &why) != FED_OK) {
        note(&f, FEDSERVER_FIELD_OPTIMIZER,
             refuse_value(s, FEDSERVER_FIELD_OPTIMIZER, &why, &fault), &fault);
    }
    note(&f, FEDSERVER_FIELD_COHORT, take_rules(s, &task->rules, &fault), &fault);
    note(&f, FEDSERVER_FIELD_DOWNLOADS, check_downloads(s, task->wire.downloads, &fault), &fault);
    return fedserver_faults_tell(&f, err);
}

/* Does all of a private task go together? Its keys were checked one by one. */
static fed_status check_private(const source *s, const fedserver_config *config, fed_error *err) {
    fed_arch arch;
    fed_error why = {0};
    fedserver_field_id id = FEDSERVER_FIELD_CLIP;
    FED_TRY(fedserver_config_model(config, &arch, err));
    const fed_status status = fedserver_private_check(&config->task, &arch, &id, &why);
    fed_arch_free(&arch);
    return status == FED_OK ? FED_OK : refuse_value(s, id, &why, err);
}

static fed_status understand(const source *s, fedserver_config *config, fed_error *err) {
    fedserver_task *task = &config->task;
    fed_optimizer optimizer;
    fed_error why = {0};
    if (task->name[0] == '\0') {
        const char *slash = strrchr(s->path, '/');
        snprintf(task->name, sizeof task->name, "%s", slash != NULL ? slash + 1 : s->path);
        fed_utf8_clean(task->name);
    }
    char initial[sizeof config->initial];
    path_beside(s, config->initial, initial, sizeof initial);
    memcpy(config->initial, initial, sizeof initial);
    FED_TRY(check_each(s, config, err));
    fedserver_phase first = fedserver_phase_at(task, 0);
    const float written = first.learning_rate;
    const char *rate = fedserver_fields[FEDSERVER_FIELD_LEARNING_RATE].name;
    FED_TRY(take_phase(s, config, &first, &optimizer, err));
    FED_TRY(check_rate(s, json_object_get(s->root, rate) != NULL, written, &optimizer, err));
    fedserver_phase_begin(&first, task);
    FED_TRY(take_codec_variates(s, task, &optimizer, err));
    FED_TRY(check_private(s, config, err));
    if (fit_strategy(task, task->wire.codec_up, &why) != FED_OK) {
        return refuse_value(s, FEDSERVER_FIELD_STRATEGY, &why, err);
    }
    /* last, for a later phase may use all values that were read before */
    for (uint32_t k = 0; k < task->phase_count; k++) {
        source later = *s;
        fedserver_source_enter(&later, k);
        FED_TRY(take_later(&later, config, k, err));
    }
    return FED_OK;
}

fed_status fedserver_config_parse(const char *path, const char *text, size_t len,
                                  fedserver_config *config, fed_error *err) {
    source s;
    fedserver_config read = {0};
    FED_TRY(fedserver_source_open(&s, path, text, len, false, err));
    fed_status status = move_long_model(&s, &read, err);
    if (status == FED_OK) {
        status = fedserver_source_read(&s, &read, err);
    }
    if (status == FED_OK) {
        status = understand(&s, &read, err);
    }
    fedserver_source_close(&s);
    if (status != FED_OK) {
        fedserver_config_free(&read);
        return status;
    }
    *config = read;
    return FED_OK;
}

/* Does the file have a tensor of a private layer? That of an earlier task's model has none. */
static bool has_private(const fed_checkpoint *file, const fed_arch *arch,
                        const fed_private_layers *split) {
    bool found = false;
    for (size_t k = 0; k < arch->layout.count && !found; k++) {
        found =
            split->stays[k] != 0 && fed_checkpoint_find(file, arch->layout.tensors[k].name) != NULL;
    }
    return found;
}

/* Read the values of arch's model, or of its shared layers if the file has no others. */
static fed_status load_initial(const fedserver_config *config, const fed_arch *arch,
                               const fed_private_layers *split, float *values, bool *shared,
                               fed_error *err) {
    fed_checkpoint *file = NULL;
    fed_error why = {0};
    fed_status status = fed_checkpoint_open(config->initial, &file, &why);
    if (status == FED_OK) {
        *shared = split->stays != NULL && !has_private(file, arch, split);
        status = fed_checkpoint_read(file, *shared ? &split->shared : &arch->layout, values, &why);
        fed_checkpoint_close(file);
    }
    return status == FED_OK
               ? FED_OK
               : fed_fail(
                     err, status,
                     "%s; key \"initial\" takes a safetensors file with the names and shapes of "
                     "key \"model\", and finite numbers",
                     why.text);
}

/* values: float32[arch->layout.size]; what travels of it comes to the front. */
static fed_status make_values(const fedserver_config *config, const fed_arch *arch,
                              const fed_private_layers *split, float *values, fed_error *err) {
    bool shared = split->stays == NULL;
    if (config->initial[0] != '\0') {
        FED_TRY(load_initial(config, arch, split, values, &shared, err));
        shared = shared || split->stays == NULL;
    } else {
        fed_arch_init_values(arch, config->task.wire.seed, values);
    }
    if (!shared) {
        fed_private_layers_take(split, &arch->layout, values, values, NULL);
    }
    return FED_OK;
}

fed_status fedserver_config_values(const fedserver_config *config, float **values, size_t *size,
                                   fed_error *err) {
    fed_arch arch;
    fed_private_layers split = {.own = 0};
    const char *layers = config->task.wire.private_layers;
    FED_TRY(whole_model(config, &arch, err));
    fed_status status =
        layers[0] != '\0' ? fed_private_layers_split(&arch, layers, &split, err) : FED_OK;
    const size_t n = arch.layout.size;
    float *made = status == FED_OK ? malloc(n * sizeof *made) : NULL;
    if (status == FED_OK) {
        status = made != NULL
                     ? make_values(config, &arch, &split, made, err)
                     : fed_fail(err, FED_ENOMEM, "out of memory for the %zu values of a model", n);
    }
    if (status == FED_OK) {
        *values = made;
        *size = n - split.own;
    } else {
        free(made);
    }
    fed_private_layers_free(&split);
    fed_arch_free(&arch);
    return status;
}

fed_status fedserver_config_read(const char *path, fedserver_config *config, fed_error *err) {
    char *text;
    size_t len;
    enum { FILE_LIMIT = 2 * FED_ARCH_LONG };
    FED_TRY(fed_file_read_text(path, FILE_LIMIT, &text, &len, err));
    fed_status status = fedserver_config_parse(path, text, len, config, err);
    free(text);
    return status;
}
