/* What devices are told of a private task, and which settings do not go with one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/task/private_task.h"

#include <math.h>
#include <string.h>

#include "fed/point.h"
#include "fedcodec/ring.h"
#include "fedserver/privacy/correlated.h"
#include "fedserver/task/phases.h"

static bool is_ring(const char *codec_up) {
    fedcodec codec;
    return fedcodec_parse(codec_up, &codec, NULL) == FED_OK && fedcodec_is_ring(codec.vtable);
}

bool fedserver_task_is_private(const fedserver_task *task) {
    return task->clip > 0;
}

bool fedserver_task_promises(const fedserver_task *task) {
    return task->epsilon > 0;
}

bool fedserver_task_has_helper(const fedserver_task *task) {
    return task->helper[0] != '\0';
}

bool fedserver_task_helper_name(const fedserver_task *task, fedserver_helper_key which,
                                uint8_t fingerprint[FED_SHA256_SIZE]) {
    fed_points keys;
    fed_error why;
    if (fed_points_read(task->helper, &keys, &why) != FED_OK || which >= keys.count) {
        return false;
    }
    fed_point_fingerprint(keys.at[which], fingerprint);
    return true;
}

bool fedserver_task_helped_by(const fedserver_task *task, fedserver_helper_key which,
                              const uint8_t fingerprint[FED_SHA256_SIZE]) {
    uint8_t name[FED_SHA256_SIZE];
    return fedserver_task_helper_name(task, which, name) &&
           memcmp(name, fingerprint, sizeof name) == 0;
}

uint32_t fedserver_task_apart(const fedserver_task *task) {
    return task->apart > 1 ? task->apart : 1;
}

uint32_t fedserver_task_groups(const fedserver_task *task) {
    return task->rules.groups > 1 ? task->rules.groups : 1;
}

bool fedserver_task_adapts(const fedserver_task *task) {
    return task->clip_quantile > 0;
}

float fedserver_task_clip(const fedserver_task *task) {
    return fedserver_task_adapts(task) && task->round_clip > 0 ? task->round_clip : task->clip;
}

bool fedserver_task_adds_noise(const fedserver_task *task) {
    return fedserver_task_promises(task) &&
           (!fedserver_task_has_helper(task) || strcmp(task->noise, "both") == 0);
}

static double multiplier(const fedserver_task *task) {
    return fedserver_privacy_z(task->epsilon, task->delta, task->participations,
                               fedserver_task_apart(task));
}

/* That of the noise on the values. */
static double values_multiplier(const fedserver_task *task) {
    return fedserver_task_adapts(task)
               ? fedserver_privacy_values_z(multiplier(task), task->rules.goal)
               : multiplier(task);
}

/* The fields' shape. A stored task was checked, so its codec is known. */
static fed_privacy_fields shape_of(const fedserver_task *task, const fed_privacy *told,
                                   const fed_layout *layout) {
    fedcodec codec;
    if (fedcodec_parse(task->wire.codec_up, &codec, NULL) != FED_OK) {
        return (fed_privacy_fields){0};
    }
    return fed_privacy_shape(told, (unsigned)codec.param[0], codec.param[1], layout->size);
}

fed_privacy fedserver_privacy_of(const fedserver_task *task, const fed_layout *layout) {
    fed_privacy told = {0};
    if (!fedserver_task_is_private(task)) {
        return told;
    }
    told.clip = fedserver_task_clip(task);
    told.minimum = task->rules.minimum;
    told.goal = task->rules.goal;
    told.cohort = task->rules.cohort;
    told.apart = 1;
    if (fedserver_task_promises(task)) {
        const double sigma = values_multiplier(task) * shape_of(task, &told, layout).reach;
        told.counted = fedserver_task_adapts(task);
        told.sigma2 = fmax(sigma * sigma, FEDSERVER_VARIANCE_LEAST);
        told.epsilon = task->epsilon;
        told.delta = task->delta;
        told.participations = task->participations;
        told.apart = fedserver_task_apart(task);
    }
    if (fedserver_task_has_helper(task)) {
        fed_points keys;
        fed_error why;
        /* A stored task was checked, so its keys are some. */
        told.helpers = fed_points_read(task->helper, &keys, &why) == FED_OK;
        memcpy(told.helper_key[0], keys.at[FEDSERVER_HELPERS_KEY], FED_SEAL_KEY);
        told.generation = task->generation;
    }
    return told;
}

fed_privacy_fields fedserver_private_fields(const fedserver_task *task, const fed_layout *layout) {
    const fed_privacy told = fedserver_privacy_of(task, layout);
    return shape_of(task, &told, layout);
}

fedserver_promise fedserver_promise_of(const fedserver_task *task, const fed_layout *layout) {
    enum { LOUD = 2 }; /* 1 / 0.5 */
    /* sqrt(pi / 2): how much larger the error of the median of many is than that of their mean */
    static const double MEDIAN = 1.2533141373155;
    const fed_privacy told = fedserver_privacy_of(task, layout);
    const fed_privacy_fields shape = shape_of(task, &told, layout);
    const double goal = task->rules.goal, z = multiplier(task);
    /* the noise of one device's share: z D g sqrt(k') in lengths of the clip */
    const int times = fedserver_task_has_helper(task) && fedserver_task_adds_noise(task) ? 2 : 1;
    const double noise =
        sqrt(times * told.sigma2 * (double)shape.fields) * (double)shape.step / (double)told.clip;
    /* each group has all of the noise, and a median errs more than a mean */
    const double groups = fedserver_task_groups(task);
    const double spread = groups > 1 ? sqrt(groups) * MEDIAN : 1;
    const double ratio = noise * spread / goal / sqrt(task->rules.rounds) *
                         fedserver_privacy_share(fedserver_task_apart(task), task->rules.rounds);
    return (fedserver_promise){.z = z,
                               .cost = fedserver_privacy_cost(z, fedserver_task_apart(task)),
                               .ratio = ratio,
                               .goal = ceil(goal * ratio * LOUD)};
}

double fedserver_promise_spent(const fedserver_task *task, uint32_t taken) {
    return fedserver_privacy_epsilon(
        taken * fedserver_privacy_cost(multiplier(task), fedserver_task_apart(task)), task->delta);
}

/* A line for each setting that does not go with a private task. */
typedef struct fault {
    bool found;
    fedserver_field_id id;
    const char *why;
} fault;

static fed_status first_of(const fault *faults, size_t n, fedserver_field_id *id, fed_error *why) {
    for (size_t k = 0; k < n; k++) {
        if (faults[k].found) {
            *id = faults[k].id;
            return fed_fail(why, FED_EINVAL, "%s", faults[k].why);
        }
    }
    return FED_OK;
}

/* Are these two codecs? The spec of a phase may not be canonical yet. */
static bool differ(const char *a, const char *b) {
    char one[FEDCODEC_SPEC] = "", other[FEDCODEC_SPEC] = "";
    fedcodec codec;
    if (fedcodec_parse(a, &codec, NULL) == FED_OK) {
        fedcodec_format(&codec, one);
    }
    if (fedcodec_parse(b, &codec, NULL) == FED_OK) {
        fedcodec_format(&codec, other);
    }
    return strcmp(one, other) != 0;
}

static bool changes_codec_up(const fedserver_task *task) {
    bool changes = false;
    for (uint32_t k = 0; k < task->phase_count; k++) {
        changes |= differ(task->phases[k].codec_up, task->wire.codec_up);
    }
    return changes;
}

static bool any_ring(const fedserver_task *task) {
    bool any = is_ring(task->wire.codec_up);
    for (uint32_t k = 0; k < task->phase_count; k++) {
        any |= is_ring(task->phases[k].codec_up);
    }
    return any;
}

/* Does the optimizer of a phase have +scaffold? It can't come with a later phase. */
static bool has_scaffold(const fedserver_task *task) {
    fed_optimizer optimizer;
    return fed_optimizer_parse(task->wire.optimizer, task->wire.learning_rate, &optimizer, NULL) ==
               FED_OK &&
           optimizer.scaffold_share > 0;
}

static bool has_bad_helper(const fedserver_task *task) {
    fed_points keys;
    fed_error why;
    return task->helper[0] != '\0' && fed_points_read(task->helper, &keys, &why) != FED_OK;
}

/* Does the strategy combine each value by itself, so that it may run over the sums of groups? */
static bool is_of_groups(const fedserver_strategy *strategy) {
    return fedserver_strategy_needs_all(strategy) && !fedserver_strategy_is_outside(strategy) &&
           strategy->combine.vtable->dense;
}

static fed_status check_ring(const fedserver_task *task, const fed_arch *arch,
                             fedserver_field_id *id, fed_error *why) {
    fedserver_strategy strategy;
    fedcodec codec;
    FED_TRY(fedserver_strategy_parse(task->strategy, &strategy, why));
    FED_TRY(fedcodec_parse(task->wire.codec_up, &codec, why));
    const fault faults[] = {
        {task->clip == 0, FEDSERVER_FIELD_CLIP,
         "it is missing: codec_up ring sends updates up to a length; let clip be that length"},
        {has_bad_helper(task), FEDSERVER_FIELD_HELPER,
         "it is not the seal key of a helper: 130 hex digits, as in its helper.pem"},
        {changes_codec_up(task), FEDSERVER_FIELD_CODEC_UP,
         "updates of codec ring are all of one codec; leave codec_up out of the phases"},
        {codec.stage != 0, FEDSERVER_FIELD_CODEC_UP,
         "a second stage makes updates of different lengths, which tell of the data; leave what "
         "follows the + out"},
        {task->rules.staleness > 0, FEDSERVER_FIELD_STALENESS,
         "updates of codec ring count in their own round only; leave staleness out"},
        {fedserver_strategy_needs_all(&strategy) && !is_of_groups(&strategy),
         FEDSERVER_FIELD_STRATEGY,
         "it needs each update by itself, and of codec ring only the sum is read; take fedavg, or "
         "median or trimmed beside groups"},
        {is_of_groups(&strategy) && fedserver_task_groups(task) == 1, FEDSERVER_FIELD_STRATEGY,
         "it needs each update by itself, and of codec ring only the sum is read; let groups say "
         "into how many sums a round falls, at least 3, or take fedavg"},
        {!is_of_groups(&strategy) && fedserver_task_groups(task) > 1, FEDSERVER_FIELD_STRATEGY,
         "with groups it compares their sums; let it be median or trimmed, or leave groups out"},
        {fedserver_round_least(&task->rules) > task->rules.goal, FEDSERVER_FIELD_GROUPS,
         "each group has at least minimum devices; let goal be minimum times groups at least, or "
         "groups fewer"},
        {fedserver_strategy_changes(&strategy), FEDSERVER_FIELD_STRATEGY,
         "it changes each update, and of codec ring only the sum is read; leave +clip out, since "
         "clip does that on the devices"},
        {has_scaffold(task), FEDSERVER_FIELD_OPTIMIZER,
         "+scaffold sends more than a clipped update of codec ring; leave it out"},
        {task->rules.upstream[0] != '\0', FEDSERVER_FIELD_UPSTREAM,
         "an edge aggregator does not sum up updates of codec ring"},
        {task->selection == FEDSERVER_SELECT_WEIGHTED, FEDSERVER_FIELD_SELECTION,
         "with codec ring, devices do not say how many samples they have; take uniform or "
         "round_robin"},
        {arch->trained < arch->layout.size, FEDSERVER_FIELD_MODEL,
         "it has running statistics, which codec ring can't clip; take groupnorm instead of bn, or "
         "let private_layers be bn"},
        {is_ring(task->wire.codec_up) &&
             fed_privacy_width((unsigned)codec.param[0], task->rules.cohort, 0) == 0,
         FEDSERVER_FIELD_COHORT,
         "the sum of so many levels does not fit into 32 bits; let b of codec_up be smaller"},
    };
    return first_of(faults, sizeof faults / sizeof faults[0], id, why);
}

/* Is the noise too large for 32 bits before and 32 behind the point? */
static bool is_too_loud(const fedserver_task *task, const fed_arch *arch) {
    fedserver_variance variance;
    return fedserver_correlated_variance(fedserver_privacy_of(task, &arch->layout).sigma2,
                                         &variance) != FED_OK;
}

static fed_status check_apart(const fedserver_task *task, const fed_arch *arch,
                              fedserver_field_id *id, fed_error *why) {
    fedcodec codec;
    if (fedserver_task_apart(task) == 1) {
        return FED_OK;
    }
    FED_TRY(fedcodec_parse(task->wire.codec_up, &codec, why));
    const fault faults[] = {
        {!fedserver_task_promises(task), FEDSERVER_FIELD_APART,
         "it belongs to a promise; let epsilon say which one, or leave apart out"},
        {codec.param[1] < 1, FEDSERVER_FIELD_CODEC_UP,
         "noise that is correlated over rounds needs the same values in each; let p of codec_up be "
         "1, or leave apart out"},
        {task->selection != FEDSERVER_SELECT_ROUND_ROBIN, FEDSERVER_FIELD_SELECTION,
         "with apart, devices take turns; let it be round_robin"},
        {fedserver_task_groups(task) > 1, FEDSERVER_FIELD_GROUPS,
         "a median of groups does not let the noise of one round take off that of another; leave "
         "apart or groups out"},
        {strcmp(task->noise, "both") == 0, FEDSERVER_FIELD_NOISE,
         "with apart, one of the two adds the noise; leave noise out"},
        {fedserver_task_promises(task) && is_too_loud(task, arch), FEDSERVER_FIELD_EPSILON,
         "the noise is too large for apart; let b of codec_up be smaller, or epsilon larger"},
    };
    return first_of(faults, sizeof faults / sizeof faults[0], id, why);
}

static fed_status check_quantile(const fedserver_task *task, fedserver_field_id *id,
                                 fed_error *why) {
    if (!fedserver_task_adapts(task)) {
        return FED_OK;
    }
    const fault faults[] = {
        {!fedserver_task_promises(task), FEDSERVER_FIELD_CLIP_QUANTILE,
         "it belongs to a promise; let epsilon say which one, or leave clip_quantile out"},
        {fedserver_task_apart(task) > 1, FEDSERVER_FIELD_CLIP_QUANTILE,
         "with apart, all rounds have one clip; leave clip_quantile or apart out"},
        {fedserver_task_groups(task) > 1, FEDSERVER_FIELD_CLIP_QUANTILE,
         "a count is of the whole round, and with groups none is opened; leave clip_quantile or "
         "groups out"},
    };
    FED_TRY(first_of(faults, sizeof faults / sizeof faults[0], id, why));
    const double z = multiplier(task);
    if (fedserver_privacy_values_z(z, task->rules.goal) > 0) {
        return FED_OK;
    }
    *id = FEDSERVER_FIELD_GOAL;
    return fed_fail(why, FED_EINVAL,
                    "with clip_quantile, the noise of this promise (z = %.2f) hides who is clipped "
                    "in rounds of more devices only; let goal be %.0f at least, or leave "
                    "clip_quantile out",
                    z, floor(10 * z) + 1);
}

static bool is_noise_of(const fedserver_task *task) {
    const bool helper = fedserver_task_has_helper(task);
    return task->noise[0] == '\0' || strcmp(task->noise, helper ? "helper" : "coordinator") == 0 ||
           (helper && strcmp(task->noise, "both") == 0);
}

static fed_status check_promise(const fedserver_task *task, const fed_arch *arch,
                                fedserver_field_id *id, fed_error *why) {
    const bool promises = fedserver_task_promises(task);
    const bool whole = promises && task->delta > 0 && task->participations > 0;
    const fault faults[] = {
        {!promises && task->delta > 0, FEDSERVER_FIELD_DELTA,
         "it belongs to a promise; let epsilon say which one, or leave delta out"},
        {!promises && task->participations > 0, FEDSERVER_FIELD_PARTICIPATIONS,
         "they belong to a promise; let epsilon say which one, or leave participations out"},
        {promises && task->clip == 0, FEDSERVER_FIELD_EPSILON,
         "noise hides updates of a bounded length only; let codec_up be ring:b=5 and clip that "
         "length"},
        {!promises && task->noise[0] != '\0', FEDSERVER_FIELD_NOISE,
         "it belongs to a promise; let epsilon say which one, or leave noise out"},
        {!is_noise_of(task), FEDSERVER_FIELD_NOISE,
         "a helper adds the noise where there is one, so noise is helper or both; without a helper "
         "it is coordinator"},
        {promises && task->delta == 0, FEDSERVER_FIELD_DELTA,
         "it is missing: how often the promise of epsilon may fail, such as 1e-5"},
        {promises && task->participations == 0, FEDSERVER_FIELD_PARTICIPATIONS,
         "it is missing: the rounds in which a device takes part at most; with more of them each "
         "round needs more noise"},
        {whole && task->clip > 0 && is_ring(task->wire.codec_up) &&
             fedserver_private_fields(task, &arch->layout).width == 0,
         FEDSERVER_FIELD_EPSILON,
         "the sum of a round and its noise do not fit into 32 bits; let b of codec_up be smaller, "
         "or epsilon larger"},
    };
    return first_of(faults, sizeof faults / sizeof faults[0], id, why);
}

fed_status fedserver_private_check(const fedserver_task *task, const fed_arch *arch,
                                   fedserver_field_id *id, fed_error *why) {
    if (task->helper_is[0] != '\0' && !fedserver_task_has_helper(task)) {
        *id = FEDSERVER_FIELD_HELPER_IS;
        return fed_fail(why, FED_EINVAL,
                        "it says who runs a helper, and this task has none; let helper be its seal "
                        "key, or leave helper_is out");
    }
    if (any_ring(task)) {
        FED_TRY(check_ring(task, arch, id, why));
        FED_TRY(check_promise(task, arch, id, why));
        FED_TRY(check_quantile(task, id, why));
        return check_apart(task, arch, id, why);
    }
    if (fedserver_task_has_helper(task)) {
        *id = FEDSERVER_FIELD_HELPER;
        return fed_fail(why, FED_EINVAL,
                        "a helper opens sums of codec ring only; let codec_up be ring:b=5, or "
                        "leave helper out");
    }
    if (fedserver_task_groups(task) > 1) {
        *id = FEDSERVER_FIELD_GROUPS;
        return fed_fail(why, FED_EINVAL,
                        "only updates of codec ring are summed in groups; strategies median and "
                        "trimmed read each of the others, so leave groups out");
    }
    FED_TRY(check_promise(task, arch, id, why));
    FED_TRY(check_quantile(task, id, why));
    if (fedserver_task_apart(task) != 1) {
        *id = FEDSERVER_FIELD_APART;
        return fed_fail(why, FED_EINVAL,
                        "it belongs to a promise; let epsilon say which one, or leave apart out");
    }
    if (task->clip != 0) {
        *id = FEDSERVER_FIELD_CLIP;
        return fed_fail(why, FED_EINVAL,
                        "only devices with codec_up ring clip their updates; let codec_up be "
                        "ring:b=5, or leave clip out");
    }
    return FED_OK;
}
