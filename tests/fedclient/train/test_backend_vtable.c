/* Backends as net.c calls them: one that fails, and one with the parameters in other memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fedclient/train/net_impl.h"
#include "fedclient/train/update.h"
#include "fedtrain/batches.h"
#include "fedtrain/train.h"

enum { SAMPLES = 12, VALUES = 16, STEPS = 3, BATCH = 4, ROUNDS = 2 };

typedef enum call { BEGIN, FORWARD, LOSS, BACKWARD, STATISTICS, END, CALLS } call;

/* Wraps the fast backend. Fails in the fails[k]-th call of kind k, counted from 1; 0: never.
 * Between begin and end it works on copies; if the rule has a state, the caller's parameters are
 * NaN meanwhile. */
typedef struct around {
    void *work;
    size_t count[CALLS], fails[CALLS];
    bool begun;
    size_t size, trained, moments;
    float *params, *state;           /* the copies, between begin and end */
    float *host_params, *host_state; /* the caller's arrays */
} around;

static const fedtrain_backend_vtable *inner;

static fed_status count(around *a, call which) {
    return ++a->count[which] == a->fails[which] ? FED_ENOMEM : FED_OK;
}

static float *copy(const float *x, size_t n) {
    float *copied = calloc(n + 1, sizeof *copied);
    assert_non_null(copied);
    if (n > 0) {
        memcpy(copied, x, n * sizeof *copied);
    }
    return copied;
}

static fed_status around_begin(void *self, const float *params, const float *state, size_t states) {
    around *a = self;
    assert_false(a->begun);
    FED_TRY(count(a, BEGIN));
    a->begun = true;
    a->moments = 0;
    a->params = copy(params, a->size);
    a->state = copy(state, states);
    a->host_params = (float *)params;
    a->host_state = (float *)state;
    for (size_t i = 0; states > 0 && i < a->size; i++) {
        a->host_params[i] = NAN;
    }
    return FED_OK;
}

static fed_status around_end(void *self, float *params, float *state) {
    around *a = self;
    assert_true(a->begun);
    a->begun = false;
    if (params != NULL) {
        memcpy(params, a->params, a->size * sizeof *params);
        memcpy(state, a->state, a->moments * sizeof *state);
    }
    free(a->params);
    free(a->state);
    return count(a, END);
}

static fedtrain_pass own_pass(const around *a, const fedtrain_pass *pass) {
    fedtrain_pass own = *pass;
    if (a->begun) {
        assert_ptr_equal(pass->params, a->host_params);
        own.params = a->params;
    }
    return own;
}

static fed_status around_forward(void *self, const fedtrain_pass *pass, float *score) {
    around *a = self;
    const fedtrain_pass own = own_pass(a, pass);
    FED_TRY(count(a, FORWARD));
    return inner->forward(a->work, &own, score);
}

static fed_status around_loss(void *self, const float *score, const fedtrain_labels *labels,
                              size_t n, float *score_grad, double *sum) {
    around *a = self;
    FED_TRY(count(a, LOSS));
    return inner->loss(a->work, score, labels, n, score_grad, sum);
}

static float *moved(const around *a, const float *at) {
    return at != NULL ? a->state + (at - a->host_state) : NULL;
}

static void take_step(around *a, const fedtrain_update *update, const float *grad) {
    fedtrain_updater u = {.update = *update, .kernels = fedtrain_kernels_best()};
    assert_ptr_equal(update->params, a->host_params);
    u.update.params = a->params;
    u.update.first = moved(a, update->first);
    u.update.second = moved(a, update->second);
    u.update.start = moved(a, update->start);
    u.update.own = moved(a, update->own);
    a->moments = u.update.second != NULL        ? 2 * a->trained
                 : update->rule == FED_MOMENTUM ? a->trained
                                                : 0;
    fedtrain_update_clip(&u, grad, a->trained);
    fedtrain_update_apply(&u, 0, grad, a->trained);
}

static fed_status around_backward(void *self, const fedtrain_pass *pass, const float *score_grad,
                                  const fedtrain_gradient *to) {
    around *a = self;
    const fedtrain_pass own = own_pass(a, pass);
    FED_TRY(count(a, BACKWARD));
    if (!a->begun) {
        return inner->backward(a->work, &own, score_grad, to);
    }
    float *grad = calloc(a->trained, sizeof *grad);
    assert_non_null(grad);
    assert_non_null(to->update);
    const fedtrain_gradient whole = {.at = grad};
    fed_status status = inner->backward(a->work, &own, score_grad, &whole);
    take_step(a, to->update, grad);
    free(grad);
    return status;
}

static fed_status around_keep_statistics(void *self, float *params) {
    around *a = self;
    FED_TRY(count(a, STATISTICS));
    return inner->keep_statistics(a->work, a->begun ? a->params : params);
}

static void around_forget(void *self) {
    inner->forget(((around *)self)->work);
}

static const float *around_output(const void *self, size_t l, size_t *n) {
    return inner->output(((const around *)self)->work, l, n);
}

static const fedtrain_backend_vtable elsewhere = {.name = "elsewhere",
                                                  .begin = around_begin,
                                                  .end = around_end,
                                                  .forward = around_forward,
                                                  .loss = around_loss,
                                                  .backward = around_backward,
                                                  .keep_statistics = around_keep_statistics,
                                                  .forget = around_forget,
                                                  .output = around_output};

typedef struct world {
    fed_arch arch;
    uint8_t pixel[SAMPLES * VALUES], label[SAMPLES];
    fedtrain_dataset set;
    uint32_t index[SAMPLES];
    fedtrain_shard shard;
    fedtrain_net *net;
    float *params, *state;
    size_t states;
    fedtrain_job job;
    around backend;
} world;

static void open_world(world *w, const char *rule) {
    fed_error err = {0};
    *w = (world){0};
    assert_fed_ok_err(fed_arch_parse(
        "input 1x4x4 | conv 3 3 nobias | bn | relu | dense 2 | scaffold", &w->arch, &err));
    for (size_t i = 0; i < SAMPLES * VALUES; i++) {
        w->pixel[i] = (uint8_t)(i * 37 % 251);
    }
    for (uint32_t i = 0; i < SAMPLES; i++) {
        w->label[i] = i % 2;
        w->index[i] = i;
    }
    w->shard = (fedtrain_shard){w->index, SAMPLES};
    assert_fed_ok(
        fedtrain_dataset_wrap(w->pixel, w->label, SAMPLES, (fed_shape){1, 4, 4}, &w->set));
    assert_fed_ok(fedtrain_net_new(&w->arch, BATCH, NULL, &w->net, NULL));
    w->job = (fedtrain_job){
        .net = w->net, .set = &w->set, .shard = &w->shard, .steps = STEPS, .batch = BATCH};
    assert_fed_ok_err(fed_optimizer_parse(rule, 0.01F, &w->job.optimizer, &err));
    w->states = fedtrain_optimizer_state_size(&w->job.optimizer, w->arch.trained);
    w->params = calloc(w->arch.layout.size, sizeof *w->params);
    w->state = calloc(w->states + 1, sizeof *w->state);
    assert_true(w->params != NULL && w->state != NULL);
    fed_arch_init_values(&w->arch, 1, w->params);
    w->backend =
        (around){.work = w->net->work, .size = w->arch.layout.size, .trained = w->arch.trained};
}

static void install_backend(world *w) {
    w->net->backend = &elsewhere;
    w->net->work = &w->backend;
}

static void close_world(world *w) {
    assert_int_equal(w->backend.begun, false);
    w->net->backend = inner;
    w->net->work = w->backend.work;
    fedtrain_net_free(w->net);
    fedtrain_dataset_free(&w->set);
    fed_arch_free(&w->arch);
    free(w->params);
    free(w->state);
}

static fed_status run(world *w, fed_error *err) {
    float loss;
    return fedtrain_run(&w->job, w->params, w->state, &loss, err);
}

static void check_rule(const char *rule) {
    world here, there;
    fed_error err = {0};
    open_world(&here, rule);
    open_world(&there, rule);
    install_backend(&there);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        here.job.round = there.job.round = round;
        assert_fed_ok_err(run(&here, &err));
        assert_fed_ok_err(run(&there, &err));
    }
    if (memcmp(here.params, there.params, here.arch.layout.size * sizeof *here.params) != 0 ||
        memcmp(here.state, there.state, here.states * sizeof *here.state) != 0) {
        fail_msg(
            "%s: training gives other bits if the backend keeps the parameters in other memory",
            rule);
    }
    assert_int_equal(there.backend.count[BEGIN], ROUNDS);
    assert_int_equal(there.backend.count[END], ROUNDS);
    close_world(&here);
    close_world(&there);
}

FED_TEST(test_parameters_that_live_elsewhere_give_the_same_bits) {
    check_rule("sgd");
    check_rule("sgd+scaffold");
    check_rule("momentum:decay=0.01+clip:norm=0.1");
    check_rule("adam+prox:mu=0.1+warmup:steps=2+stall:window=2,patience=1,factor=0.5");
}

FED_TEST(test_an_evaluation_begins_and_ends_without_a_change) {
    world w;
    fed_error err = {0};
    fedtrain_score here, there;
    open_world(&w, "sgd");
    float *before = copy(w.params, w.arch.layout.size);
    assert_fed_ok_err(fedtrain_evaluate(w.net, BATCH, &w.set, w.params, &here, &err));
    install_backend(&w);
    assert_fed_ok_err(fedtrain_evaluate(w.net, BATCH, &w.set, w.params, &there, &err));
    assert_memory_equal(w.params, before, w.arch.layout.size * sizeof *before);
    assert_true(here.correct == there.correct && here.loss == there.loss);
    assert_int_equal(w.backend.count[BEGIN], 1);
    assert_int_equal(w.backend.count[END], 1);
    free(before);
    close_world(&w);
}

static void take_one_step(world *w) {
    fedtrain_batches *batches;
    fedtrain_batch batch;
    fed_error err = {0};
    float loss;
    assert_fed_ok_err(fedtrain_batches_open(&w->job, w->params, &batches, &err));
    fedtrain_batches_next(batches, 0, &batch);
    assert_fed_ok_err(
        fedtrain_net_step(w->net, &w->job.optimizer, w->params, w->state, &batch, &loss, &err));
    fedtrain_batches_close(batches);
}

/* Fail a kind's second call. untouched: parameters and state must be as after the first step. */
static void check_failure(call which, const char *words, bool untouched) {
    world w, wanted;
    fed_error err = {0};
    open_world(&w, "adam");
    open_world(&wanted, "adam");
    install_backend(&w);
    w.backend.fails[which] = 2;
    assert_fed_status(run(&w, &err), FED_ENOMEM);
    assert_fed_says(err, "step 2 of 3");
    assert_fed_says(err, "elsewhere");
    assert_fed_says(err, words);
    assert_null(strstr(err.text, "diverge"));
    assert_int_equal(w.backend.count[BEGIN], w.backend.count[END]);
    take_one_step(&wanted);
    assert_true(isfinite(w.params[0]));
    if (untouched) {
        assert_memory_equal(w.params, wanted.params, w.arch.layout.size * sizeof *w.params);
        assert_memory_equal(w.state, wanted.state, w.states * sizeof *w.state);
    }
    close_world(&w);
    close_world(&wanted);
}

FED_TEST(test_a_pass_that_fails_is_named_and_the_parameters_come_back) {
    check_failure(FORWARD, "forward pass", true);
    check_failure(LOSS, "computing the loss", true);
    check_failure(BACKWARD, "backward pass", false);
    check_failure(STATISTICS, "running statistics", false);
}

FED_TEST(test_parameters_that_cannot_leave_or_come_back_are_a_failure) {
    static const call calls[] = {BEGIN, END};
    for (size_t k = 0; k < 2; k++) {
        world w;
        fed_error err = {0};
        fedtrain_score score;
        open_world(&w, "sgd");
        install_backend(&w);
        w.backend.fails[calls[k]] = 1;
        assert_fed_status(run(&w, &err), FED_ENOMEM);
        assert_fed_says(err, "elsewhere");
        w.backend.fails[calls[k]] = 2;
        assert_fed_status(fedtrain_evaluate(w.net, BATCH, &w.set, w.params, &score, &err),
                          FED_ENOMEM);
        assert_fed_says(err, "elsewhere");
        close_world(&w);
    }
}

int main(void) {
    inner = fedtrain_backend_get(0);
    return fed_cases_run(NULL, NULL);
}
