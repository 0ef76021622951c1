/* A personal model: its training begins anew, and is measured on what was held back. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_digits.h"
#include "fedtrain/personal.h"

enum { STEPS = 60, BATCH = 4 };

typedef struct world {
    fed_arch arch;
    fedtrain_net *net;
    fedtrain_data data;
    fedtrain_share share, held;
    float *values;
} world;

static void open_world(world *w, const char *model, double holdout) {
    fed_error err = {0};
    fedtrain_partition all;
    assert_fed_ok_err(fed_arch_load(model, &w->arch, &err));
    assert_fed_ok_err(fedtrain_net_new(&w->arch, 100, NULL, &w->net, &err));
    assert_fed_ok_err(fedtrain_data_open("mnist", fed_test_dir, "train", "train", &w->data, &err));
    assert_fed_ok_err(fedtrain_data_split(&w->data, FEDTRAIN_SPLIT_IID, 1, 1, &all, &err));
    assert_fed_ok_err(fedtrain_share_take(&w->data, &all, 0, &w->share, &err));
    fedtrain_partition_free(&all);
    assert_fed_ok_err(fedtrain_share_hold(&w->share, holdout, 1, &w->held, &err));
    w->values = calloc(w->arch.layout.size, sizeof *w->values);
    assert_non_null(w->values);
    fed_arch_init_values(&w->arch, 1, w->values);
}

static void close_world(world *w) {
    free(w->values);
    fedtrain_share_free(&w->share);
    fedtrain_share_free(&w->held);
    fedtrain_data_free(&w->data);
    fedtrain_net_free(w->net);
    fed_arch_free(&w->arch);
}

static fedtrain_job job_of(const world *w, const char *optimizer) {
    fed_error err = {0};
    fedtrain_job job = {.net = w->net, .steps = STEPS, .batch = BATCH, .seed = 1, .round = 1};
    fedtrain_job_use(&job, &w->data, &w->share);
    assert_fed_ok_err(fed_optimizer_parse(optimizer, 0.1f, &job.optimizer, &err));
    return job;
}

static fedtrain_personal run(world *w, const char *optimizer) {
    fed_error err = {0};
    fedtrain_personal made;
    const fedtrain_job job = job_of(w, optimizer);
    assert_fed_ok_err(fedtrain_personal_run(&job, &w->data, &w->held, 100, w->values, &made, &err));
    return made;
}

static int setup(void **state) {
    (void)fed_test_dir_make(state);
    fed_digits_write(fed_test_dir, 200, 10);
    return 0;
}

FED_TEST(it_is_measured_before_and_after_on_what_was_held_back) {
    world w;
    open_world(&w, "lr", 0.25);
    const fedtrain_personal made = run(&w, "sgd");
    assert_int_equal(made.before.samples, 50);
    assert_int_equal(made.after.samples, 50);
    assert_true(made.after.correct > made.before.correct + 5);
    assert_true(made.after.loss < made.before.loss);
    close_world(&w);
}

FED_TEST(where_nothing_is_held_back_nothing_is_measured) {
    world w;
    open_world(&w, "lr", 0);
    const fedtrain_personal made = run(&w, "sgd");
    assert_int_equal(made.before.samples, 0);
    assert_int_equal(made.after.samples, 0);
    assert_true(made.loss > 0);
    close_world(&w);
}

/* Masking and control variates are about what is sent: the training is that without them. */
FED_TEST(nothing_of_what_is_sent_goes_into_it) {
    static const char *const pairs[][3] = {
        {"lr", "momentum+mask", "momentum"},
        {"input 784 | dense 10 | scaffold", "sgd+scaffold", "sgd"}};
    for (size_t k = 0; k < 2; k++) {
        world a, b;
        open_world(&a, pairs[k][0], 0.25);
        open_world(&b, pairs[k][0], 0.25);
        for (size_t i = a.arch.trained; i < a.arch.layout.size; i++) {
            a.values[i] = b.values[i] = 0.01f; /* the coordinator's control variate */
        }
        (void)run(&a, pairs[k][1]);
        float loss = 0;
        fed_error err = {0};
        const fedtrain_job job = job_of(&b, pairs[k][2]);
        float *state = calloc(fedtrain_optimizer_state_size(&job.optimizer, b.arch.trained) + 1,
                              sizeof *state);
        assert_non_null(state);
        assert_fed_ok_err(fedtrain_run(&job, b.values, state, &loss, &err));
        assert_memory_equal(a.values, b.values, a.arch.layout.size * sizeof *a.values);
        free(state);
        close_world(&a);
        close_world(&b);
    }
}

int main(void) {
    return fed_cases_run(setup, fed_test_dir_remove);
}
