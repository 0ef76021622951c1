/* Contract of all that a task may need and the devices of all releases: a device gets a lease
 * exactly for a task that its software knows. Else the coordinator declines with the reason. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "codec_spec.h"
#include "coordinator_fixture.h"
#include "fed/optimizer_spec.h"
#include "fed/version.h"
#include "fed_device.h"
#include "fedcodec/codec_vtable.h"
#include "fedserver/rounds/rounds.h"
#include "fedserver/strategies/strategy.h"

/* What devices say in check-ins, the oldest first. TODAY gets what the client library says. */
enum { FIRST, NOVEMBER_22, WITH_APP, WITH_STAGES, TODAY, RELEASES };
static fed_checkin says[RELEASES] = {
    [FIRST] = {.protocol = 1},
    [NOVEMBER_22] = {.protocol = 2, .capabilities = FED_CAN_PATCH},
    [WITH_APP] = {.protocol = 2,
                  .capabilities = FED_CAN_PATCH | FED_CAN_DECLINE | FED_CAN_WORKER_GROUP |
                                  FED_CAN_NAMED | FED_CAN_APP},
    [WITH_STAGES] = {.protocol = 2,
                     .capabilities = FED_CAN_PATCH | FED_CAN_DECLINE | FED_CAN_APP |
                                     FED_CAN_OWN_METRICS | FED_CAN_STAGES},
    [TODAY] = {.protocol = FED_PROTOCOL, .slots = 1},
};

/* For each word, the first release that knows it. The list was made from the releases' sources, not
 * from the coordinator's table. */
static const struct {
    const char *words;
    int release;
} known[] = {
    {" float32 3lc sbc float16 bfloat16 int8 stoch3 onebit topk dgc stc twobit inceptionn trunc "
     "runs zstd ",
     FIRST},
    {" p pos seed s zre t b e ", FIRST},
    {" dense conv maxpool avgpool relu tanh sigmoid dropout bn lrn embedding lstm widen add "
     "concat ",
     FIRST},
    {" sgd momentum adam adamw warmup step cosine stall clip prox ", FIRST},
    {" scaffold mask stateless ", NOVEMBER_22},
    {" vector tensors ", WITH_APP},
    {" randk qsgd natural eden threshold powersgd entropy values bits bucket rank power rows ",
     WITH_STAGES},
    {" eden:p eden:rotations eden:scale eden:pos ", TODAY},
    {" layout ", TODAY},
};

/* A task that needs something, and the names of what it needs. */
typedef struct thing {
    const char *names[2]; /* the second one may be NULL */
    char model[100], codec_up[FEDCODEC_SPEC], codec_down[FEDCODEC_SPEC], optimizer[80],
        strategy[80];
} thing;

typedef struct world {
    coordinator *coordinator;
    test_device devices[RELEASES], evaluators[RELEASES];
    unsigned things, declined;
} world;

static thing plain(const char *name) {
    return (thing){.names = {name},
                   .model = "input 2 | dense 2",
                   .codec_up = "float32",
                   .codec_down = "float32",
                   .optimizer = "sgd",
                   .strategy = "fedavg"};
}

/* Return the first release that knows a word, or RELEASES if the list does not have it. */
static int find_word(const char *name) {
    char word[FEDCODEC_SPEC + 2];
    snprintf(word, sizeof word, " %s ", name);
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        if (strstr(known[k].words, word) != NULL) {
            return known[k].release;
        }
    }
    return RELEASES;
}

static int first_to_know(const char *name) {
    const int release = find_word(name);
    if (release < RELEASES) {
        return release;
    }
    fail_msg("which release is the first to know \"%s\"? Say so here and, for a thing that is new, "
             "in fedserver/rounds/newer.def",
             name);
    return -1;
}

static int release_of(const thing *t) {
    const int one = first_to_know(t->names[0]);
    if (t->names[1] == NULL) {
        return one;
    }
    char both[64]; /* a parameter that came after its codec: "eden:p" */
    snprintf(both, sizeof both, "%s:%s", t->names[0], t->names[1]);
    const int newer = find_word(both);
    const int other = newer < RELEASES ? newer : first_to_know(t->names[1]);
    return one > other ? one : other;
}

static void assert_reason(const fedserver_training *t, const thing *what, const world *w) {
    json_t *status = coordinator_json(w->coordinator, "/v1/status", "");
    const json_t *task = NULL;
    size_t k;
    json_t *each;
    json_array_foreach(json_object_get(status, "tasks"), k, each) {
        const json_int_t id = json_integer_value(json_object_get(each, "id"));
        task = id == (json_int_t)t->task.wire.id ? each : task;
    }
    const json_t *declined = json_object_get(task, "declined");
    const int count = 2 * release_of(what); /* a device and an evaluator of each earlier release */
    assert_int_equal(json_integer_value(json_object_get(declined, "count")), count);
    const json_t *first = json_array_get(json_object_get(declined, "reasons"), 0);
    const char *reason = json_string_value(json_object_get(first, "reason"));
    if (count > 0 && (strstr(reason, "the software of this device does not know \"") == NULL ||
                      strstr(reason, "install the coordinator's release") == NULL)) {
        fail_msg("%s: the reason is %s", what->names[0], reason);
    }
    json_decref(status);
}

static void check_in(world *w, const thing *what, fedserver_training *t, int release) {
    coordinator *c = w->coordinator;
    const bool knows = release >= release_of(what);
    const uint64_t before = t->round.leased;
    fed_checkin said = says[release];
    const fed_assignment work = device_say(c, &w->devices[release], &said);
    said.role = FED_ROLE_EVALUATE;
    const fed_assignment exam = device_say(c, &w->evaluators[release], &said);
    if (work.action != (knows ? FED_ACTION_TRAIN : FED_ACTION_WAIT) ||
        exam.action != (knows ? FED_ACTION_EVALUATE : FED_ACTION_WAIT)) {
        fail_msg("%s %s: a device of release %d is told %d, and an evaluator %d", what->names[0],
                 what->names[1] != NULL ? what->names[1] : "", release, work.action, exam.action);
    }
    assert_int_equal(t->round.leased, before + knows);
    if (!knows) {
        const bool told = (said.capabilities & FED_CAN_DECLINE) != 0;
        assert_int_equal(work.reason, told ? FED_WAIT_DECLINED : FED_WAIT_NO_TASK);
        assert_int_equal(exam.reason, work.reason);
        w->declined++;
    }
}

static void check(world *w, const thing *what) {
    char json[700];
    fed_error err = {0};
    snprintf(json, sizeof json,
             "{\"model\": \"%s\", \"codec_up\": \"%s\", \"codec_down\": \"%s\", \"optimizer\":"
             " \"%s\", \"strategy\": \"%s\", \"rounds\": 1, \"cohort\": 8, \"goal\": 8,"
             " \"minimum\": 8}",
             what->model, what->codec_up, what->codec_down, what->optimizer, what->strategy);
    const uint64_t id = coordinator_task(w->coordinator, json);
    fedserver_training *t = fedserver_rounds_task(&w->coordinator->server->rounds, id);
    assert_non_null(t);
    for (int release = 0; release < RELEASES; release++) {
        check_in(w, what, t, release);
    }
    assert_reason(t, what, w);
    w->things++;
    assert_fed_ok_err(fedserver_task_change(w->coordinator->server, w->coordinator->now_ms, id,
                                            FEDSERVER_CANCEL, &err));
    coordinator_commit(w->coordinator);
}

static void check_both_ways(world *w, thing *t, const char *spec) {
    snprintf(t->codec_up, sizeof t->codec_up, "%s", spec);
    check(w, t);
    snprintf(t->codec_down, sizeof t->codec_down, "%s", spec);
    snprintf(t->codec_up, sizeof t->codec_up, "float32");
    check(w, t);
}

FED_TEST_WITH(each_codec_and_each_of_its_parameters, world *w) {
    const fedcodec_vtable *codec;
    for (size_t k = 0; (codec = fedcodec_at(k)) != NULL; k++) {
        thing t = plain(codec->name);
        check_both_ways(w, &t, codec_spec_of(codec));
        for (const fedcodec_param *p = codec->params; p->key != NULL; p++) {
            const double value = p->preset == p->low ? p->high : p->low; /* not the default */
            char number[32], spec[FEDCODEC_SPEC];
            snprintf(number, sizeof number, "%.15g", value);
            snprintf(spec, sizeof spec, "%s:%s=%s", codec->name, p->key,
                     p->names != NULL ? p->names[(int)value] : number);
            if (strcmp(spec, "eden:scale=tensor") == 0) {
                snprintf(spec, sizeof spec, "eden:scale=tensor,p=0.5"); /* it needs such a p */
            } else if (strcmp(spec, "threshold:pos=auto") == 0) {
                snprintf(spec, sizeof spec, "threshold:pos=auto,t=0.001"); /* t has no preset */
            } else if (strcmp(spec, "threshold:values=int8") == 0) {
                snprintf(spec, sizeof spec, "threshold:values=int8,t=0.001");
            }
            t = plain(codec->name);
            t.names[1] = p->key;
            check_both_ways(w, &t, spec);
        }
    }
    assert_true(w->things > 60);
    assert_true(w->declined > 40);
}

/* The coordinator unpacks what it sends for devices that do not know the stage. */
FED_TEST_WITH(each_second_stage_goes_down_to_all_and_up_from_those_that_know_it, world *w) {
    for (uint8_t stage = 1; stage <= 3; stage++) {
        const char *name = fedcodec_stage_name(stage);
        if (name[0] == '?') {
            continue;
        }
        thing t = plain(name);
        snprintf(t.codec_up, sizeof t.codec_up, "sbc+%s", name);
        check(w, &t);
        t = plain("float32");
        snprintf(t.codec_down, sizeof t.codec_down, "3lc+%s", name);
        check(w, &t);
    }
    assert_true(w->things >= 4);
}

FED_TEST_WITH(each_layer, world *w) {
    static const char *const models[] = {
        [FED_LAYER_DENSE] = "input 2 | dense 2",
        [FED_LAYER_CONV] = "input 1x4x4 | conv 2 3 | dense 2",
        [FED_LAYER_MAXPOOL] = "input 1x4x4 | maxpool 2 | dense 2",
        [FED_LAYER_AVGPOOL] = "input 1x4x4 | avgpool 2 | dense 2",
        [FED_LAYER_RELU] = "input 2 | relu | dense 2",
        [FED_LAYER_TANH] = "input 2 | tanh | dense 2",
        [FED_LAYER_SIGMOID] = "input 2 | sigmoid | dense 2",
        [FED_LAYER_DROPOUT] = "input 2 | dropout 0.5 | dense 2",
        [FED_LAYER_BATCHNORM] = "input 2 | dense 2 | bn",
        [FED_LAYER_LRN] = "input 7x4x4 | lrn 3 | dense 3",
        [FED_LAYER_EMBEDDING] = "input tokens 6 of 11 | embedding 5 | dense 3 each",
        [FED_LAYER_LSTM] = "input tokens 6 of 11 | embedding 5 | lstm 3 | dense 3",
        [FED_LAYER_WIDEN] = "input 2x4x4 | widen 3 | dense 2",
        [FED_LAYER_ADD] = "input 2 | a: dense 2 | b: relu | add a | dense 2",
        [FED_LAYER_CONCAT] = "input 6 | dense 5 | a: relu | concat a | dense 3",
    };
    for (size_t k = FED_LAYER_DENSE; k < sizeof models / sizeof models[0]; k++) {
        thing t = plain(fed_layer_word((fed_layer_kind)k));
        assert_non_null(strstr(models[k], t.names[0]));
        snprintf(t.model, sizeof t.model, "%s", models[k]);
        check(w, &t);
    }
    /* fails if there is a kind of layer without a model in the list */
    assert_string_equal(fed_layer_word((fed_layer_kind)(sizeof models / sizeof models[0])), "?");
    thing t = plain("vector");
    snprintf(t.model, sizeof t.model, "vector 6");
    check(w, &t);
    t = plain("tensors");
    snprintf(t.model, sizeof t.model, "tensors a 3 | b 2x2");
    check(w, &t);
    t = plain("layout"); /* a name of more than 63 characters makes the text one */
    snprintf(t.model, sizeof t.model, "tensors %064d 3", 0);
    check(w, &t);
}

/* Set names to what the error about a wrong spec lists after "there are". */
static void listed(const char *wrong, char names[200]) {
    fed_optimizer optimizer;
    fed_error err = {0};
    assert_fed_status(fed_optimizer_parse(wrong, 0.1f, &optimizer, &err), FED_EINVAL);
    const char *list = strstr(err.text, "there are ");
    assert_non_null(list);
    snprintf(names, 200, "%s", list + strlen("there are "));
}

static void check_optimizer(world *w, const char *name, bool rule) {
    static const char *const examples[] = {
        "sgd+warmup:steps=2",   "sgd+step:every=2", "sgd+cosine:steps=2",
        "sgd+stall:window=2",   "sgd+clip:norm=1",  "sgd+prox:mu=1",
        "sgd+scaffold:share=1", "momentum+mask",    "adam+stateless"};
    thing t = plain(name);
    snprintf(t.optimizer, sizeof t.optimizer, "%s", name);
    for (size_t k = 0; k < sizeof examples / sizeof examples[0] && !rule; k++) {
        const char *part = strchr(examples[k], '+') + 1;
        if (strcspn(part, ":") == strlen(name) && strncmp(part, name, strlen(name)) == 0) {
            snprintf(t.optimizer, sizeof t.optimizer, "%s", examples[k]);
        }
    }
    if (!rule && strchr(t.optimizer, '+') == NULL) {
        fail_msg("there is no example of +%s", name);
    }
    if (strcmp(name, "mask") == 0) {
        snprintf(t.codec_up, sizeof t.codec_up, "sbc");
    }
    if (strcmp(name, "scaffold") == 0) {
        snprintf(t.model, sizeof t.model, "input 2 | dense 2 | scaffold");
    }
    check(w, &t);
}

FED_TEST_WITH(each_optimizer_and_each_of_its_parts, world *w) {
    static const char *const wrong[] = {"unknown", "sgd+unknown"};
    for (size_t k = 0; k < 2; k++) {
        char names[200], *rest = NULL;
        listed(wrong[k], names);
        for (char *name = strtok_r(names, ", ", &rest); name != NULL;
             name = strtok_r(NULL, ", ", &rest)) {
            check_optimizer(w, name, k == 0);
        }
    }
    assert_true(w->things >= 13);
}

/* Only the coordinator reads a strategy, so devices of all releases take part. */
FED_TEST_WITH(each_strategy_and_each_addition, world *w) {
    const fedserver_strategy_vtable *strategy;
    const fedserver_addition_vtable *addition;
    thing t = plain("float32");
    for (size_t k = 0; (strategy = fedserver_strategy_at(k)) != NULL; k++) {
        snprintf(t.strategy, sizeof t.strategy, "%s", strategy->name);
        if (!strategy->outside) {
            check(w, &t);
        }
    }
    for (size_t k = 0; (addition = fedserver_addition_at(k)) != NULL; k++) {
        snprintf(t.strategy, sizeof t.strategy, "fedavg+%s", addition->example);
        check(w, &t);
    }
    assert_int_equal(w->declined, 0);
}

/* Ask a client of the library what it says. */
static void learn_today(void) {
    fed_device device;
    fed_device_open(&device, "float32", 1);
    (void)fed_device_event(&device);
    says[TODAY].capabilities = device.fake.capabilities & ~(uint32_t)FED_STARTED;
    fed_device_close(&device);
    assert_true((says[TODAY].capabilities & FED_CAN_PATCH) != 0);
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    void *c = NULL;
    assert_non_null(w);
    coordinator_begin(&c);
    w->coordinator = c;
    for (int k = 0; k < RELEASES; k++) {
        w->devices[k] = coordinator_enrol(c);
        w->evaluators[k] = coordinator_enrol_evaluator(c);
    }
    learn_today();
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    void *c = w->coordinator;
    coordinator_end(&c);
    free(w);
    return 0;
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
