/* Task files: one table of keys, with what each may be. */
#include "fedserver/task/config.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/arch.h"
#include "fed/optimizer_spec.h"
#include "fedcodec/codec.h"
#include "fedserver/strategies/strategy.h"
#include "fedserver/task/json_place.h"
#include "fedserver/task/phases.h"

typedef enum key_id {
    NAME,
    MODEL,
    INITIAL,
    SEED,
    CODEC_UP,
    CODEC_DOWN,
    SMALL_TENSOR,
    LOCAL_STEPS,
    BATCH,
    OPTIMIZER,
    LEARNING_RATE,
    STRATEGY,
    ROUNDS,
    COHORT,
    GOAL,
    MINIMUM,
    DEADLINE_S,
    STALENESS,
    DEVICE_SHARE,
    SELECTION,
    TAG,
    PHASES,
    ROUND,
    KEYS
} key_id;

typedef enum key_type { STRING, INTEGER, NUMBER, LIST } key_type;

/* Which objects may have a key: the task, each of its phases, or both. */
enum { IN_TASK = 1, IN_PHASE = 2, IN_BOTH = 3 };

typedef struct key_rule {
    const char *name;
    unsigned where;
    key_type type;
    double low, high;   /* numbers: both allowed; strings: their length */
    const char *preset; /* text of the default; NULL: the key must be there */
    const char *right;  /* "it must be ..." */
} key_rule;

static const key_rule rules[KEYS] = {
    [NAME] = {"name", IN_TASK, STRING, 1, 63, "", "a text of 1 to 63 bytes"},
    [MODEL] = {"model", IN_TASK, STRING, 1, 4095, NULL,
               "a model's name, such as lenet5-caffe, a description of its layers, or @FILE"},
    [INITIAL] = {"initial", IN_TASK, STRING, 1, 900, "", "the path of a safetensors file"},
    [SEED] = {"seed", IN_TASK, INTEGER, 0, 9.3e18, "1", "an integer from 0"},
    [CODEC_UP] = {"codec_up", IN_BOTH, STRING, 1, 63, "sbc:p=0.01", "a codec, such as sbc:p=0.01"},
    [CODEC_DOWN] = {"codec_down", IN_BOTH, STRING, 1, 63, "3lc:s=1", "a codec, such as 3lc:s=1"},
    [SMALL_TENSOR] = {"small_tensor", IN_TASK, INTEGER, 0, 4294967295.0, "1024",
                      "an integer from 0 to 4294967295"},
    [LOCAL_STEPS] = {"local_steps", IN_BOTH, INTEGER, 1, 1e6, "10", "an integer from 1 to 1000000"},
    [BATCH] = {"batch", IN_BOTH, INTEGER, 1, 65536, "8", "an integer from 1 to 65536"},
    [OPTIMIZER] = {"optimizer", IN_BOTH, STRING, 1, FED_OPTIMIZER_SPEC - 1, "sgd",
                   "an optimizer, such as adam or momentum:m=0.9+clip:norm=1"},
    [LEARNING_RATE] = {"learning_rate", IN_BOTH, NUMBER, 1e-30, 1e30, "0.01",
                       "a number from 1e-30 to 1e30"},
    [STRATEGY] = {"strategy", IN_TASK, STRING, 1, FEDSERVER_STRATEGY_SPEC - 1, "fedavg",
                  "a strategy, such as fedadam:lr=0.01 or median+clip:norm=1"},
    [ROUNDS] = {"rounds", IN_TASK, INTEGER, 1, 1e6, NULL, "an integer from 1 to 1000000"},
    [COHORT] = {"cohort", IN_TASK, INTEGER, 1, 1e6, "", "an integer from 1 to 1000000"},
    [GOAL] = {"goal", IN_TASK, INTEGER, 1, 1e6, "", "an integer from 1 to cohort"},
    [MINIMUM] = {"minimum", IN_TASK, INTEGER, 1, 1e6, "1", "an integer from 1 to goal"},
    [DEADLINE_S] = {"deadline_s", IN_TASK, NUMBER, 0.1, 604800, "600",
                    "a number from 0.1 to 604800"},
    [STALENESS] = {"staleness", IN_TASK, INTEGER, 0, 1000, "0", "an integer from 0 to 1000"},
    [DEVICE_SHARE] = {"device_share", IN_TASK, NUMBER, 0.01, 1, "0.5", "a number from 0.01 to 1"},
    [SELECTION] = {"selection", IN_TASK, STRING, 1, 31, "uniform",
                   "uniform, weighted or round_robin"},
    [TAG] = {"tag", IN_TASK, STRING, 1, FEDSERVER_TAG - 1, "", "a tag that devices enrolled with"},
    [PHASES] = {"phases", IN_TASK, LIST, 0, FEDSERVER_PHASES, "",
                "a list of at most 32 objects, each with \"round\" and what changes from it on"},
    [ROUND] = {"round", IN_PHASE, INTEGER, 2, 1e6, NULL,
               "an integer from 2 to rounds, larger than that of the phase before"},
};
static_assert(FEDSERVER_PHASES == 32, "said in the rule of PHASES");

/* A file being read. */
typedef struct source {
    const char *path;
    fedserver_json_text json;
    const char *string[KEYS]; /* values as they were found, or the defaults; in a phase, those of */
    int64_t integer[KEYS];    /* the one before where it does not say otherwise */
    double number[KEYS];
    const json_t *phases; /* NULL: none */
    char place[32];       /* of the object being read: "", "phases[0]." */
    size_t start;         /* where in the text that object begins */
} source;

static int line_of(const source *s, const char *key) {
    return fedserver_json_line(&s->json, s->start, key);
}

static fed_status refuse(const source *s, key_id id, const char *found, fed_error *err) {
    return fed_fail(err, FED_EINVAL, "%s:%d: key \"%s%s\" is %s; it must be %s", s->path,
                    line_of(s, rules[id].name), s->place, rules[id].name, found, rules[id].right);
}

static fed_status take_string(source *s, key_id id, const json_t *value, fed_error *err) {
    const char *text = json_string_value(value);
    if (text == NULL) {
        return refuse(s, id, "not a text", err);
    }
    size_t len = json_string_length(value);
    if (len < (size_t)rules[id].low || len > (size_t)rules[id].high || strlen(text) != len) {
        return refuse(s, id, len == 0 ? "empty" : "too long, or holds a NUL", err);
    }
    s->string[id] = text;
    return FED_OK;
}

static fed_status take_number(source *s, key_id id, const json_t *value, fed_error *err) {
    bool integer = rules[id].type == INTEGER;
    if (integer ? !json_is_integer(value) : !json_is_number(value)) {
        return refuse(s, id, integer ? "not an integer" : "not a number", err);
    }
    s->integer[id] = json_integer_value(value);
    s->number[id] = json_number_value(value);
    if (!(s->number[id] >= rules[id].low && s->number[id] <= rules[id].high)) {
        char found[40];
        snprintf(found, sizeof found, "%.12g", s->number[id]);
        return refuse(s, id, found, err);
    }
    return FED_OK;
}

static void take_preset(source *s, key_id id) {
    s->string[id] = rules[id].preset;
    s->integer[id] = strtoll(rules[id].preset, NULL, 10);
    s->number[id] = strtod(rules[id].preset, NULL);
}

static fed_status take_list(source *s, key_id id, const json_t *value, fed_error *err) {
    if (!json_is_array(value) || json_array_size(value) > (size_t)rules[id].high) {
        return refuse(s, id, json_is_array(value) ? "too long" : "not a list", err);
    }
    s->phases = value;
    return FED_OK;
}

static bool belongs(key_id id, unsigned where) {
    return (rules[id].where & where) != 0;
}

static fed_status check_names(const source *s, json_t *object, unsigned where, fed_error *err) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        key_id id = 0;
        while (id < KEYS && (!belongs(id, where) || strcmp(rules[id].name, name) != 0)) {
            id++;
        }
        if (id == KEYS) {
            return fed_fail(
                err, FED_EINVAL,
                "%s:%d: key \"%s%.60s\" is unknown; docs/protocol.md#task lists the keys", s->path,
                line_of(s, name), s->place, name);
        }
    }
    return FED_OK;
}

static fed_status take_value(source *s, key_id id, const json_t *value, fed_error *err) {
    switch (rules[id].type) {
    case STRING:
        return take_string(s, id, value, err);
    case LIST:
        return take_list(s, id, value, err);
    default:
        return take_number(s, id, value, err);
    }
}

/* What a phase leaves out stays as it was. */
static fed_status take_all(source *s, json_t *object, unsigned where, fed_error *err) {
    FED_TRY(check_names(s, object, where, err));
    for (key_id id = 0; id < KEYS; id++) {
        const json_t *value = json_object_get(object, rules[id].name);
        if (!belongs(id, where)) {
            continue;
        }
        if (value != NULL) {
            FED_TRY(take_value(s, id, value, err));
        } else if (rules[id].preset == NULL) {
            return fed_fail(err, FED_EINVAL, "%s: key \"%s%s\" is missing; it must be %s", s->path,
                            s->place, rules[id].name, rules[id].right);
        } else if (where == IN_TASK) {
            take_preset(s, id);
        }
    }
    return FED_OK;
}

/* Another library's complaint about a key's value, with the place in front. */
static fed_status refuse_value(const source *s, key_id id, const fed_error *why, fed_error *err) {
    return fed_fail(err, FED_EINVAL, "%s:%d: key \"%s%s\": %s", s->path, line_of(s, rules[id].name),
                    s->place, rules[id].name, why->text);
}

static fed_status take_codec(const source *s, key_id id, char dst[FEDCODEC_SPEC], fed_error *err) {
    fedcodec codec;
    fed_error why = {0};
    if (fedcodec_parse(s->string[id], &codec, &why) != FED_OK) {
        return refuse_value(s, id, &why, err);
    }
    fedcodec_format(&codec, dst);
    return FED_OK;
}

/* A file's name in a task is relative to the task file, so that both can be moved together. */
static void place_beside(const source *s, const char *file, char *dst, size_t cap) {
    const char *slash = strrchr(s->path, '/');
    bool relative = file[0] != '\0' && file[0] != '/' && slash != NULL;
    snprintf(dst, cap, "%.*s%s", relative ? (int)(slash - s->path) + 1 : 0, s->path, file);
}

static fed_status take_model(const source *s, char *dst, size_t cap, fed_error *err) {
    const char *model = s->string[MODEL];
    char file[FED_ARCH_TEXT] = "@";
    if (model[0] == '@') {
        place_beside(s, model + 1, file + 1, sizeof file - 1);
        model = file;
    }
    fed_arch arch;
    fed_error why = {0};
    if (fed_arch_load(model, &arch, &why) != FED_OK) {
        return refuse_value(s, MODEL, &why, err);
    }
    snprintf(dst, cap, "%s", arch.text);
    fed_arch_free(&arch);
    return FED_OK;
}

/* SCAFFOLD's control variate travels in the model. */
static fed_status check_scaffold(const source *s, const char *model, fed_error *err) {
    fed_arch arch;
    FED_TRY(fed_arch_parse(model, &arch, err));
    bool scaffold = arch.scaffold;
    fed_arch_free(&arch);
    const fed_error why = {.text = "+scaffold needs a model that ends with \"| scaffold\""};
    return scaffold ? FED_OK : refuse_value(s, OPTIMIZER, &why, err);
}

static fed_status parse_optimizer(const source *s, const char *model, fed_optimizer *optimizer,
                                  fed_error *err) {
    fed_error why = {0};
    if (fed_optimizer_parse(s->string[OPTIMIZER], (float)s->number[LEARNING_RATE], optimizer,
                            &why) != FED_OK) {
        return refuse_value(s, OPTIMIZER, &why, err);
    }
    return optimizer->scaffold_share > 0 ? check_scaffold(s, model, err) : FED_OK;
}

static fed_status check_mask(const source *s, const char *codec_up, fed_error *err) {
    fedcodec codec;
    double share = 0;
    FED_TRY(fedcodec_parse(codec_up, &codec, err));
    fed_status status = fedserver_sent_share(&codec, &share);
    if (status != FED_OK) {
        return fed_fail(err, status, "codec %s can't be tried out", codec_up);
    }
    const fed_error why = {.text = "+mask sets the momentum of what was sent to 0, and with this "
                                   "codec_up all values are sent: none would be left. Let codec_up "
                                   "be dgc, sbc or another that sends a part of them"};
    return share <= FEDSERVER_SENDS_ALL ? FED_OK : refuse_value(s, OPTIMIZER, &why, err);
}

/* The optimizer as it is written, so that older devices understand a plain name; and the rate that
 * it means. */
static fed_status take_phase(const source *s, const char *model, fedserver_phase *phase,
                             fed_optimizer *optimizer, fed_error *err) {
    FED_TRY(take_codec(s, CODEC_UP, phase->codec_up, err));
    FED_TRY(take_codec(s, CODEC_DOWN, phase->codec_down, err));
    FED_TRY(parse_optimizer(s, model, optimizer, err));
    if (optimizer->mask) {
        FED_TRY(check_mask(s, phase->codec_up, err));
    }
    phase->local_steps = (uint32_t)s->integer[LOCAL_STEPS];
    phase->batch = (uint32_t)s->integer[BATCH];
    snprintf(phase->optimizer, sizeof phase->optimizer, "%s", s->string[OPTIMIZER]);
    phase->learning_rate = (float)optimizer->learning_rate;
    return FED_OK;
}

/* The phase that the task begins with. */
static fed_status take_first(const source *s, fedserver_task *task, fed_error *err) {
    fedserver_phase first;
    fed_optimizer optimizer;
    FED_TRY(take_phase(s, task->wire.model, &first, &optimizer, err));
    fedserver_phase_apply(&first, &task->wire);
    memcpy(task->codec_down, first.codec_down, sizeof task->codec_down);
    return FED_OK;
}

/* One of the two says the other. 130 % of the goal: more than the 6 to 10 % of devices drop out
 * that Google reports (Bonawitz et al., "Towards federated learning at scale", 2019). */
static fed_status take_cohort(source *s, fed_error *err) {
    if (s->integer[GOAL] == 0 && s->integer[COHORT] == 0) {
        return fed_fail(err, FED_EINVAL,
                        "%s: key \"goal\" is missing (how many updates make a round), or "
                        "\"cohort\" (how many devices are asked for one)",
                        s->path);
    }
    if (s->integer[GOAL] == 0) {
        s->integer[GOAL] = s->integer[COHORT];
    } else if (s->integer[COHORT] == 0) {
        s->integer[COHORT] = (s->integer[GOAL] * 13 + 9) / 10;
    }
    return FED_OK;
}

static fed_status take_selection(const source *s, fedserver_selection *dst, fed_error *err) {
    static const char *const names[] = {"uniform", "weighted", "round_robin"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        if (strcmp(s->string[SELECTION], names[k]) == 0) {
            *dst = (fedserver_selection)k;
            return FED_OK;
        }
    }
    char found[80];
    snprintf(found, sizeof found, "\"%.60s\"", s->string[SELECTION]);
    return refuse(s, SELECTION, found, err);
}

/* minimum <= goal; synchronous: goal <= cohort */
static fed_status take_rules(source *s, fedserver_round_rules *dst, fed_error *err) {
    FED_TRY(take_cohort(s, err));
    if (s->integer[GOAL] > s->integer[COHORT] && s->integer[STALENESS] == 0) {
        return fed_fail(err, FED_EINVAL,
                        "%s:%d: key \"goal\" is %lld; it must be at most cohort, "
                        "which is %lld",
                        s->path, line_of(s, "goal"), (long long)s->integer[GOAL],
                        (long long)s->integer[COHORT]);
    }
    if (s->integer[MINIMUM] > s->integer[GOAL]) {
        return fed_fail(err, FED_EINVAL,
                        "%s:%d: key \"minimum\" is %lld; it must be at most goal, "
                        "which is %lld",
                        s->path, line_of(s, "minimum"), (long long)s->integer[MINIMUM],
                        (long long)s->integer[GOAL]);
    }
    *dst = (fedserver_round_rules){.rounds = (uint32_t)s->integer[ROUNDS],
                                   .cohort = (uint32_t)s->integer[COHORT],
                                   .goal = (uint32_t)s->integer[GOAL],
                                   .minimum = (uint32_t)s->integer[MINIMUM],
                                   .deadline_ms = llround(s->number[DEADLINE_S] * 1000.0),
                                   .staleness = (uint32_t)s->integer[STALENESS]};
    return FED_OK;
}

/* As it is written. The rules and the codec of the updates are known. */
static fed_status take_strategy(const source *s, fedserver_task *task, fed_error *err) {
    fedserver_strategy strategy;
    fedcodec codec_up;
    fed_error why = {0};
    FED_TRY(fedcodec_parse(task->wire.codec_up, &codec_up, err));
    if (fedserver_strategy_parse(s->string[STRATEGY], &strategy, &why) != FED_OK ||
        fedserver_strategy_check(&strategy, task->rules.minimum, task->rules.goal, &codec_up,
                                 &why) != FED_OK) {
        return refuse_value(s, STRATEGY, &why, err);
    }
    snprintf(task->strategy, sizeof task->strategy, "%s", s->string[STRATEGY]);
    return FED_OK;
}

/* -- phases -- */

/* Does the one remember what the other does, so that a device can go on with it? */
static bool remembers_the_same(const fed_optimizer *a, const fed_optimizer *b) {
    return a->rule == b->rule && (a->warmup_steps > 0) == (b->warmup_steps > 0) &&
           (a->step_every > 0) == (b->step_every > 0) &&
           (a->cosine_steps > 0) == (b->cosine_steps > 0) &&
           (a->stall_window > 0) == (b->stall_window > 0) && (a->prox_mu > 0) == (b->prox_mu > 0) &&
           (a->scaffold_share > 0) == (b->scaffold_share > 0);
}

/* A phase's optimizer goes on where the task's is; and its rate is not another one's. */
static fed_status check_optimizer(const source *s, const json_t *object, const fedserver_task *task,
                                  const fed_optimizer *optimizer, fed_error *err) {
    fed_optimizer first;
    FED_TRY(fed_optimizer_parse(task->wire.optimizer, task->wire.learning_rate, &first, err));
    if (!remembers_the_same(&first, optimizer)) {
        const fed_error why = {.text = "devices go on with what the task's optimizer remembers, so "
                                       "a phase may change its numbers, not its rule or parts"};
        return refuse_value(s, OPTIMIZER, &why, err);
    }
    bool wanted = json_object_get(object, rules[LEARNING_RATE].name) != NULL;
    if (wanted && optimizer->learning_rate != (double)(float)s->number[LEARNING_RATE]) {
        const fed_error why = {.text = "it changes nothing, since the optimizer names lr itself; "
                                       "leave lr out there, or give the phase another optimizer"};
        return refuse_value(s, LEARNING_RATE, &why, err);
    }
    return FED_OK;
}

static fed_status check_codec(const source *s, const fedserver_task *task,
                              const fedserver_phase *phase, fed_error *err) {
    fedserver_strategy strategy;
    fedcodec codec_up;
    fed_error why = {0};
    FED_TRY(fedserver_strategy_parse(task->strategy, &strategy, err));
    FED_TRY(fedcodec_parse(phase->codec_up, &codec_up, err));
    return fedserver_strategy_check(&strategy, task->rules.minimum, task->rules.goal, &codec_up,
                                    &why) == FED_OK
               ? FED_OK
               : refuse_value(s, CODEC_UP, &why, err);
}

static fed_status take_later(source *s, json_t *object, fedserver_task *task, fed_error *err) {
    const uint32_t before = fedserver_phase_at(task, task->phase_count).round;
    fedserver_phase *phase = &task->phases[task->phase_count];
    fed_optimizer optimizer;
    FED_TRY(take_all(s, object, IN_PHASE, err));
    phase->round = (uint32_t)s->integer[ROUND];
    if (phase->round <= before || phase->round > task->rules.rounds) {
        char found[40];
        snprintf(found, sizeof found, "%u", phase->round);
        return refuse(s, ROUND, found, err);
    }
    FED_TRY(take_phase(s, task->wire.model, phase, &optimizer, err));
    FED_TRY(check_optimizer(s, object, task, &optimizer, err));
    FED_TRY(check_codec(s, task, phase, err));
    task->phase_count++;
    return FED_OK;
}

/* All else is known. */
static fed_status take_phases(const source *s, fedserver_task *task, fed_error *err) {
    source later = *s; /* what a phase leaves out is that of the phase before */
    for (size_t k = 0; k < json_array_size(s->phases); k++) {
        json_t *object = json_array_get(s->phases, k);
        if (!json_is_object(object)) {
            return refuse(s, PHASES, "a list of something else", err);
        }
        snprintf(later.place, sizeof later.place, "phases[%zu].", k);
        later.start = fedserver_json_item(&s->json, rules[PHASES].name, k);
        FED_TRY(take_later(&later, object, task, err));
    }
    return FED_OK;
}

static fed_status convert(source *s, fedserver_config *config, fed_error *err) {
    fedserver_task *task = &config->task;
    const char *slash = strrchr(s->path, '/');
    const char *file = slash != NULL ? slash + 1 : s->path;
    snprintf(task->name, sizeof task->name, "%s",
             s->string[NAME][0] != '\0' ? s->string[NAME] : file);
    task->wire.small_tensor = (uint32_t)s->integer[SMALL_TENSOR];
    task->wire.seed = (uint64_t)s->integer[SEED];
    place_beside(s, s->string[INITIAL], config->initial, sizeof config->initial);
    FED_TRY(take_model(s, task->wire.model, sizeof task->wire.model, err));
    FED_TRY(take_first(s, task, err));
    snprintf(task->tag, sizeof task->tag, "%s", s->string[TAG]);
    FED_TRY(take_selection(s, &task->selection, err));
    task->device_share = s->number[DEVICE_SHARE];
    FED_TRY(take_rules(s, &task->rules, err));
    FED_TRY(take_strategy(s, task, err));
    return take_phases(s, task, err);
}

fed_status fedserver_config_parse(const char *path, const char *text, size_t len,
                                  fedserver_config *config, fed_error *err) {
    source s = {.path = path, .json = {text, len}};
    json_error_t wrong;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &wrong);
    if (root == NULL) {
        return fed_fail(err, FED_EFORMAT, "%s:%d: %s; a task is a JSON object", path,
                        wrong.line > 0 ? wrong.line : 1, wrong.text);
    }
    fedserver_config read = {0};
    fed_status status = json_is_object(root)
                            ? take_all(&s, root, IN_TASK, err)
                            : fed_fail(err, FED_EFORMAT, "%s:1: a task is a JSON object", path);
    if (status == FED_OK) {
        status = convert(&s, &read, err);
    }
    json_decref(root);
    if (status == FED_OK) {
        *config = read;
    }
    return status;
}
