/* The tables of strategies and additions. Parses specs, and calls a strategy's functions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/rng.h"
#include "fedserver/strategies/strategy.h"

#define FEDSERVER_STRATEGY(folder)                                                                 \
    extern const fedserver_strategy_vtable fedserver_strategy_##folder;
#include "fedserver/strategies/strategies.def"
#undef FEDSERVER_STRATEGY

static const fedserver_strategy_vtable *const strategies[] = {
#define FEDSERVER_STRATEGY(folder) &fedserver_strategy_##folder,
#include "fedserver/strategies/strategies.def"
#undef FEDSERVER_STRATEGY
};

const fedserver_strategy_vtable *fedserver_strategy_at(size_t k) {
    return k < sizeof strategies / sizeof strategies[0] ? strategies[k] : NULL;
}

#define FEDSERVER_ADDITION(folder)                                                                 \
    extern const fedserver_addition_vtable fedserver_addition_##folder;
#include "fedserver/strategies/additions.def"
#undef FEDSERVER_ADDITION

static const fedserver_addition_vtable *const additions[] = {
#define FEDSERVER_ADDITION(folder) &fedserver_addition_##folder,
#include "fedserver/strategies/additions.def"
#undef FEDSERVER_ADDITION
};

const fedserver_addition_vtable *fedserver_addition_at(size_t k) {
    return k < sizeof additions / sizeof additions[0] ? additions[k] : NULL;
}

static fed_status fail_unknown(fed_word name, fed_error *err) {
    fed_names names = {""}, behind = {""};
    const fedserver_strategy_vtable *vtable;
    const fedserver_addition_vtable *addition;
    for (size_t k = 0; (vtable = fedserver_strategy_at(k)) != NULL; k++) {
        fed_names_add(&names, vtable->name);
    }
    for (size_t k = 0; (addition = fedserver_addition_at(k)) != NULL; k++) {
        fed_names_add(&behind, addition->example);
    }
    return fed_fail(err, FED_EINVAL,
                    "unknown strategy \"%.*s\"; there are %s, and any of them can be followed by + "
                    "and %s",
                    (int)name.len, name.text, names.text, behind.text);
}

static fed_status read_addition(const fedserver_addition_vtable *vtable, const char *text,
                                fedserver_strategy *strategy, fed_error *err) {
    for (size_t k = 0; k < strategy->addition_count; k++) {
        if (strategy->additions[k].vtable == vtable) {
            return fed_fail(err, FED_EINVAL, "the strategy's addition %s is given twice",
                            vtable->name);
        }
    }
    if (strategy->addition_count == FEDSERVER_ADDITIONS) {
        return fed_fail(err, FED_EINVAL, "a strategy has at most %d additions; leave out %s",
                        FEDSERVER_ADDITIONS, vtable->name);
    }
    fedserver_addition *added = &strategy->additions[strategy->addition_count++];
    added->vtable = vtable;
    return fed_params_read("strategy's part", vtable->name, vtable->params, text, added->param,
                           err);
}

static fed_status read_part(const char *text, fedserver_strategy *strategy, fed_error *err) {
    fed_word name = fed_word_take(&text, ":");
    const fedserver_addition_vtable *addition;
    for (size_t i = 0; (addition = fedserver_addition_at(i)) != NULL; i++) {
        if (fed_word_is(name, addition->name)) {
            return read_addition(addition, text, strategy, err);
        }
    }
    const fedserver_strategy_vtable *vtable;
    size_t k = 0;
    while ((vtable = fedserver_strategy_at(k)) != NULL && !fed_word_is(name, vtable->name)) {
        k++;
    }
    if (vtable == NULL) {
        return fail_unknown(name, err);
    }
    bool steps = vtable->step != NULL;
    fedserver_strategy_half *half = steps ? &strategy->step : &strategy->combine;
    if (half->vtable != NULL) {
        return fed_fail(err, FED_EINVAL, "strategies %s and %s both %s: name only one of them",
                        half->vtable->name, vtable->name,
                        steps ? "make the change of the model" : "make one vector of the updates");
    }
    half->vtable = vtable;
    return fed_params_read("strategy", vtable->name, vtable->params, text, half->param, err);
}

fed_status fedserver_strategy_parse(const char *spec, fedserver_strategy *strategy,
                                    fed_error *err) {
    char parts[FEDSERVER_STRATEGY_SPEC]; /* the spec, with a NUL for each '+' between parts */
    if (strlen(spec) >= sizeof parts) {
        return fed_fail(err, FED_EINVAL, "a strategy is at most %zu characters long",
                        sizeof parts - 1);
    }
    memcpy(parts, spec, strlen(spec) + 1);
    fedserver_strategy parsed = {0};
    for (char *part = parts, *plus = NULL; part != NULL; part = plus != NULL ? plus + 1 : NULL) {
        plus = fed_spec_plus(part);
        if (plus != NULL) {
            *plus = '\0';
        }
        FED_TRY(read_part(part, &parsed, err));
    }
    *strategy = parsed;
    return FED_OK;
}

static uint32_t least(const fedserver_strategy_half *half) {
    return half->vtable->least != NULL ? half->vtable->least(half->param) : 1;
}

enum { TRIAL = 4096 };

static fed_status send(const fedcodec *codec, const float x[TRIAL], float y[TRIAL]) {
    float residual[TRIAL] = {0};
    size_t cap = fedcodec_bound(codec, TRIAL), work_size = fedcodec_work_size(codec, TRIAL), len;
    uint8_t *bytes = malloc(cap + 1);
    void *work = malloc(work_size + 1);
    fed_status status = bytes != NULL && work != NULL ? FED_OK : FED_ENOMEM;
    if (status == FED_OK) {
        status = fedcodec_encode(codec, residual, x, TRIAL, work, bytes, cap, &len);
    }
    if (status == FED_OK) {
        status = fedcodec_decode(codec->vtable, bytes, len, y, TRIAL);
    }
    free(bytes);
    free(work);
    return status;
}

fed_status fedserver_codec_try(const fedcodec *codec, fedserver_codec_trial *trial,
                               fed_error *err) {
    float x[TRIAL], y[TRIAL];
    fed_rng rng;
    fed_rng_init(&rng, 1, 0, 0);
    for (size_t i = 0; i < TRIAL; i++) {
        /* random values of about the magnitude of an update's values */
        x[i] = (fed_rng_float(&rng) - 0.5f) * 0x1p-10f;
    }
    const fed_status status = send(codec, x, y);
    if (status != FED_OK) {
        return fed_fail(err, status, "a test of codec %s, to see what it sends, has failed",
                        fedcodec_name(codec->vtable));
    }
    size_t sent = 0;
    double errors = 0.0, squares = 0.0;
    for (size_t i = 0; i < TRIAL; i++) {
        const double error = (double)y[i] - (double)x[i];
        sent += fabsf(y[i]) > 0.0f;
        errors += error * error;
        squares += (double)x[i] * (double)x[i];
    }
    *trial = (fedserver_codec_trial){.sent = (double)sent / TRIAL, .error = sqrt(errors / squares)};
    return FED_OK;
}

/* Where the error of a message is longer than its update, an update of zeros is nearer to each
 * honest message than these are to each other. */
static fed_status check_codec(const fedserver_strategy_vtable *vtable, const fedcodec *codec,
                              fed_error *err) {
    fedserver_codec_trial trial;
    FED_TRY(fedserver_codec_try(codec, &trial, err));
    if (vtable->dense && trial.sent <= FEDSERVER_SENDS_ALL) {
        return fed_fail(err, FED_EINVAL,
                        "strategy %s combines each value separately, but with this codec_up an "
                        "update has %.2g %% of its values and 0 for the others, so that most "
                        "results would be 0; let codec_up be int8, float16 or another codec that "
                        "sends all values",
                        vtable->name, 100.0 * trial.sent);
    }
    if (vtable->compares && trial.error > 1.0) {
        return fed_fail(err, FED_EINVAL,
                        "strategy %s takes the updates that are nearest to others, but with this "
                        "codec_up the error of a message is %.2g times as long as its update, so "
                        "that an update of zeros would be the nearest; let codec_up be int8, eden "
                        "or another codec of smaller error, or let strategy be median, or fedavg "
                        "with +clip and device_share",
                        vtable->name, trial.error);
    }
    return FED_OK;
}

fed_status fedserver_strategy_check(const fedserver_strategy *strategy, uint32_t minimum,
                                    uint32_t goal, const fedcodec *codec_up, fed_error *err) {
    if (!fedserver_strategy_needs_all(strategy)) {
        return FED_OK;
    }
    const fedserver_strategy_vtable *vtable = strategy->combine.vtable;
    uint32_t needed = least(&strategy->combine);
    if (minimum < needed) {
        return fed_fail(err, FED_EINVAL,
                        "%s with these parameters needs %u updates a round, but minimum is %u",
                        vtable->name, needed, minimum);
    }
    if (vtable->most > 0 && goal > vtable->most) {
        return fed_fail(err, FED_EINVAL, "%s takes at most %u updates a round, but goal is %u",
                        vtable->name, vtable->most, goal);
    }
    return vtable->dense || vtable->compares ? check_codec(vtable, codec_up, err) : FED_OK;
}

bool fedserver_strategy_is_outside(const fedserver_strategy *strategy) {
    return strategy->combine.vtable != NULL && strategy->combine.vtable->outside;
}

bool fedserver_strategy_needs_all(const fedserver_strategy *strategy) {
    return strategy->combine.vtable != NULL && strategy->combine.vtable->combine != NULL;
}

bool fedserver_strategy_changes(const fedserver_strategy *strategy) {
    bool changes = false;
    for (size_t k = 0; k < strategy->addition_count; k++) {
        changes = changes || strategy->additions[k].vtable->update != NULL;
    }
    return changes;
}

void fedserver_strategy_update(const fedserver_strategy *strategy, double norm, float *x,
                               size_t trained) {
    for (size_t k = 0; k < strategy->addition_count; k++) {
        const fedserver_addition *addition = &strategy->additions[k];
        if (addition->vtable->update != NULL) {
            addition->vtable->update(addition->param, norm, x, trained);
            norm = addition->vtable->norm(addition->param, norm);
        }
    }
}

double fedserver_strategy_norm(const fedserver_strategy *strategy, double norm) {
    for (size_t k = 0; k < strategy->addition_count; k++) {
        const fedserver_addition *addition = &strategy->additions[k];
        if (addition->vtable->norm != NULL) {
            norm = addition->vtable->norm(addition->param, norm);
        }
    }
    return norm;
}

size_t fedserver_trained(const fed_layout *layout) {
    const size_t others = layout->statistics + layout->controls;
    return others > 0 ? layout->tensors[layout->count - others].offset : layout->size;
}

size_t fedserver_strategy_state_size(const fedserver_strategy *strategy, size_t trained) {
    return strategy->step.vtable != NULL ? strategy->step.vtable->moments * trained : 0;
}

void fedserver_strategy_start(const fedserver_strategy *strategy, float *state, size_t trained) {
    const fedserver_strategy_half *half = &strategy->step;
    if (half->vtable != NULL && half->vtable->start != NULL) {
        half->vtable->start(half->param, state, trained);
    } else {
        memset(state, 0, fedserver_strategy_state_size(strategy, trained) * sizeof *state);
    }
}

void fedserver_strategy_step(const fedserver_strategy *strategy, float *state, float *u,
                             size_t trained) {
    const fedserver_strategy_half *half = &strategy->step;
    for (size_t k = 0; k < strategy->addition_count; k++) {
        const fedserver_addition *addition = &strategy->additions[k];
        if (addition->vtable->combined != NULL) {
            addition->vtable->combined(addition->param, u, trained);
        }
    }
    if (half->vtable != NULL) {
        half->vtable->step(half->param, state, u, trained);
    }
}
