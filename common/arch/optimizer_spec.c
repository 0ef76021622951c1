/* Parse optimizer specs such as "adam:lr=1e-3+cosine:steps=1000" to numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/optimizer_spec.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

#include "fed/params.h"
#include "fed/small.h"

enum { PARAMS = 6 };

/* A rule such as adam, or a part after a '+' such as clip. */
typedef struct part {
    const char *name;
    fed_param param[PARAMS];
    size_t field[PARAMS]; /* the offset of each parameter's double in fed_optimizer */
} part;

#define FIELD(name) offsetof(fed_optimizer, name)

/* Range of a count. It stays below 2^24, so that a float counts exactly. */
#define COUNT 1, 1e7
#define RATE                                                                                       \
    { "lr", 0, FLT_MIN, 1e30, "learning rate", false, NULL }
#define DECAY(x)                                                                                   \
    { "decay", x, 0, 1e3, "weight decay", false, NULL }
#define BETA(k, x)                                                                                 \
    { k, x, 0, 0.9999999, "fraction of the moment that is kept", false, NULL }
#define EPSILON                                                                                    \
    { "eps", 1e-8, 1e-30, 1, "added to the divisor", false, NULL }
#define FACTOR                                                                                     \
    { "factor", 0.1, 1e-6, 1, "factor of the rate", false, NULL }

#define ADAM_PARAMS(preset)                                                                        \
    {RATE, BETA("b1", 0.9), BETA("b2", 0.999), EPSILON, DECAY(preset)}, {                          \
        FIELD(learning_rate), FIELD(beta1), FIELD(beta2), FIELD(epsilon), FIELD(decay)             \
    }

static const part rules[] = {
    [FED_SGD] = {"sgd", {RATE, DECAY(0)}, {FIELD(learning_rate), FIELD(decay)}},
#if !FED_SMALL
    [FED_MOMENTUM] = {"momentum",
                      {RATE,
                       {"m", 0.9, 0, 0.9999999, "fraction of the momentum that is kept", false,
                        NULL},
                       {"nesterov", 0, 0, 1, "1: look ahead", true, NULL},
                       DECAY(0)},
                      {FIELD(learning_rate), FIELD(momentum), FIELD(nesterov), FIELD(decay)}},
    [FED_ADAM] = {"adam", ADAM_PARAMS(0)},
    [FED_ADAMW] = {"adamw", ADAM_PARAMS(0.01)},
#endif
};

static const part suffixes[] = {
    {"warmup", {{"steps", 0, COUNT, "steps to the full rate", true, NULL}}, {FIELD(warmup_steps)}},
    {"step",
     {{"every", 0, COUNT, "steps at one rate", true, NULL}, FACTOR},
     {FIELD(step_every), FIELD(step_factor)}},
    {"cosine",
     {{"steps", 0, COUNT, "steps to the lowest rate", true, NULL},
      {"low", 0, 0, 1, "the lowest rate as a fraction of lr", false, NULL}},
     {FIELD(cosine_steps), FIELD(cosine_low)}},
    {"stall",
     {{"window", 100, COUNT, "steps whose mean loss counts", true, NULL},
      {"patience", 5, COUNT, "windows without gain before the rate falls", true, NULL},
      FACTOR,
      {"gain", 1e-4, 0, 1, "fraction of the loss that must be gained", false, NULL}},
     {FIELD(stall_window), FIELD(stall_patience), FIELD(stall_factor), FIELD(stall_gain)}},
    {"clip",
     {{"value", 0, 0, 1e30, "largest value", false, NULL},
      {"norm", 0, 0, 1e30, "largest norm", false, NULL}},
     {FIELD(clip_value), FIELD(clip_norm)}},
    {"prox", {{"mu", 0, 1e-30, 1e6, "the proximal term's weight", false, NULL}}, {FIELD(prox_mu)}},
    {"scaffold",
     {{"share", 1, 1e-6, 1, "fraction of the devices in a round", false, NULL}},
     {FIELD(scaffold_share)}},
    {.name = "mask"},
    {.name = "stateless"},
};

static fed_status find(const part *parts, size_t count, const char *kind, fed_word name, size_t *k,
                       fed_error *err) {
    fed_names names = {""};
    for (*k = 0; *k < count; ++*k) {
        if (fed_word_is(name, parts[*k].name)) {
            return FED_OK;
        }
        fed_names_add(&names, parts[*k].name);
    }
    return fed_fail(err, FED_EINVAL, "unknown %s \"%.*s\"; there are %s%s", kind, (int)name.len,
                    name.text, names.text,
                    FED_SMALL ? " in this program, which was built small" : "");
}

static fed_status read_part(const part *p, const char *kind, const char *text,
                            fed_optimizer *optimizer, fed_error *err) {
    double value[PARAMS];
    FED_TRY(fed_params_read(kind, p->name, p->param, text, value, err));
    for (size_t k = 0; p->param[k].key != NULL; k++) {
        memcpy((char *)optimizer + p->field[k], &value[k], sizeof value[k]);
    }
    return FED_OK;
}

static fed_status read_rule(const char *text, float learning_rate, fed_optimizer *optimizer,
                            fed_error *err) {
    size_t k;
    fed_word name = fed_word_take(&text, ":");
    FED_TRY(find(rules, sizeof rules / sizeof rules[0], "optimizer", name, &k, err));
    const char *key = strstr(text, "learning_rate=");
    if (!FED_SMALL && key != NULL && strchr(":,", key[-1]) != NULL) { /* text begins with : */
        return fed_fail(err, FED_EINVAL,
                        "optimizer %s calls its learning rate lr: write %s:lr=0.01, or give the "
                        "key learning_rate beside the optimizer",
                        rules[k].name, rules[k].name);
    }
    part rule = rules[k];
    rule.param[0].preset = (double)learning_rate;
    optimizer->rule = (fed_rule)k;
    FED_TRY(read_part(&rule, "optimizer", text, optimizer, err));
    optimizer->learning_rate = (double)(float)optimizer->learning_rate;
    return FED_OK;
}

static fed_status read_suffix(const char *text, unsigned *named, fed_optimizer *optimizer,
                              fed_error *err) {
    static const char kind[] = "optimizer's part";
    if (FED_SMALL) {
        return fed_fail(err, FED_EINVAL,
                        "\"+%s\": this program was built small, without it (see fed/small.h)",
                        text);
    }
    size_t k;
    fed_word name = fed_word_take(&text, ":");
    FED_TRY(find(suffixes, sizeof suffixes / sizeof suffixes[0], kind, name, &k, err));
    if (*named & 1u << k) {
        return fed_fail(err, FED_EINVAL, "%s %s is given twice", kind, suffixes[k].name);
    }
    *named |= 1u << k;
    FED_TRY(read_part(&suffixes[k], kind, text, optimizer, err));
    if (fed_word_is(name, "clip") && optimizer->clip_value <= 0 && optimizer->clip_norm <= 0) {
        return fed_fail(err, FED_EINVAL, "%s clip needs value or norm, above 0", kind);
    }
    optimizer->mask = optimizer->mask || fed_word_is(name, "mask");
    optimizer->stateless = optimizer->stateless || fed_word_is(name, "stateless");
    if (optimizer->mask && optimizer->rule == FED_SGD) {
        return fed_fail(err, FED_EINVAL,
                        "%s mask needs momentum, adam or adamw: sgd has no momentum", kind);
    }
    return FED_OK;
}

static fed_status check_parts(const fed_optimizer *o, fed_error *err) {
    if (o->scaffold_share > 0 && o->rule != FED_SGD) {
        return fed_fail(
            err, FED_EINVAL,
            "optimizer's part scaffold needs the rule sgd: it takes a round's change of "
            "the model for the sum of its gradients");
    }
    if (o->stateless && (o->mask || o->scaffold_share > 0)) {
        return fed_fail(err, FED_EINVAL,
                        "optimizer's part stateless can't be combined with mask or scaffold, which "
                        "need what a device keeps of earlier rounds");
    }
    return FED_OK;
}

fed_status fed_optimizer_parse(const char *spec, float learning_rate, fed_optimizer *optimizer,
                               fed_error *err) {
    if (strlen(spec) >= FED_OPTIMIZER_SPEC) {
        return fed_fail(err, FED_EINVAL, "an optimizer spec is at most %d characters long",
                        FED_OPTIMIZER_SPEC - 1);
    }
    char parts[FED_OPTIMIZER_SPEC]; /* a copy in which NULs replace the '+' between parts */
    memcpy(parts, spec, strlen(spec) + 1);
    fed_optimizer parsed = {.rule = FED_SGD};
    unsigned named = 0;
    char *plus = fed_spec_plus(parts);
    if (plus != NULL) {
        *plus = '\0';
    }
    FED_TRY(read_rule(parts, learning_rate, &parsed, err));
    while (plus != NULL) {
        const char *text = plus + 1;
        plus = fed_spec_plus(plus + 1);
        if (plus != NULL) {
            *plus = '\0';
        }
        FED_TRY(read_suffix(text, &named, &parsed, err));
    }
    FED_TRY(FED_SMALL ? FED_OK : check_parts(&parsed, err));
    *optimizer = parsed;
    return FED_OK;
}
