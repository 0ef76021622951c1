/* An optimizer at the owners, beside optimizers on all workers: bits, residuals, checkpoints. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>
#include <pthread.h>

#include "feddc/exchange.h"
#include "worker_case.h"

enum { TRAIN = 600, TEST = 200, BATCH = 8 };

static worker_data data;
static const char dense[] = "input 784 | dense 24 | relu | dense 10";
static const char star[] = "owners:aggregators=1";
static const char *const collectives[] = {"owners", star, "owners:aggregators=2"};

static worker_case case_of(const char *collective, const char *codec, const char *pull) {
    return (worker_case){.data = &data,
                         .model = dense,
                         .collective = collective,
                         .sync = "bitsgd",
                         .codec = codec,
                         .pull = pull,
                         .optimizer = "momentum:lr=0.02",
                         .at_owners = true,
                         .workers = 3,
                         .batch = BATCH};
}

static size_t size_of(const worker_case *c) {
    fed_arch arch;
    fed_optimizer optimizer;
    fed_error err = {0};
    assert_fed_ok_err(fed_arch_parse(c->model, &arch, &err));
    assert_fed_ok_err(fed_optimizer_parse(c->optimizer, 0.1F, &optimizer, &err));
    const size_t size = arch.layout.size + fedtrain_optimizer_state_size(&optimizer, arch.trained);
    fed_arch_free(&arch);
    return size;
}

static void assert_same(const worker_case *a, const worker_case *b) {
    float *x = worker_case_values(a, NULL, NULL), *y = worker_case_values(b, NULL, NULL);
    if (memcmp(x, y, size_of(a) * sizeof *x) != 0) {
        fail_msg("%s, %s, %s: the values and the optimizer's state differ", a->collective,
                 a->optimizer, a->sync);
    }
    free(x);
    free(y);
}

FED_TEST(with_float32_codecs_the_bits_are_those_of_optimizers_on_all_workers) {
    static const char *const optimizers[] = {
        "sgd:lr=0.1,decay=0.001", "momentum:lr=0.02,decay=0.001+warmup:steps=5",
        "adam:lr=0.01+cosine:steps=20", "adamw:lr=0.01,decay=0.01"};
    for (size_t k = 0; k < 12; k++) {
        worker_case here = case_of(collectives[k % 3], NULL, NULL);
        here.optimizer = optimizers[k / 3];
        here.sync = k % 2 == 0 ? "bitsgd" : "local:n=2";
        here.run[0] = 12;
        worker_case all = here;
        all.at_owners = false;
        assert_same(&here, &all);
    }
}

FED_TEST(it_learns_with_residuals_on_both_sides_and_backup_workers) {
    static const char *const codecs[][2] = {{"3lc:s=1.75", "3lc:s=1.75"},
                                            {"topk:p=0.05", "topk:p=0.05"},
                                            {"int8", "stoch3"},
                                            {"3lc", "bfloat16"}};
    for (size_t k = 0; k < 8; k++) {
        worker_case c = case_of(collectives[k % 2], codecs[k / 2][0], codecs[k / 2][1]);
        c.late = k % 2;
        c.run[0] = 120;
        fedtrain_score score;
        free(worker_case_values(&c, &score, NULL));
        if (score.correct < TEST * 8 / 10) {
            fail_msg("%s, %s: only %zu of %d test pictures are right", c.codec, c.pull,
                     score.correct, TEST);
        }
    }
}

FED_TEST(a_resumed_worker_group_leaves_the_same_bits) {
    char path[300], name[340];
    snprintf(path, sizeof path, "%s/checkpoint", fed_test_dir);
    for (size_t k = 0; k < 3; k++) {
        worker_case whole = case_of(collectives[k], "3lc", "3lc:s=1.5");
        whole.optimizer = "adam:lr=0.005+warmup:steps=15";
        worker_case first = whole, second = whole, third = whole;
        whole.run[0] = 24;
        first.run[0] = 7;
        first.save = second.resume = second.save = third.resume = path;
        second.run[0] = 9;
        third.run[0] = 8;
        free(worker_case_values(&first, NULL, NULL));
        free(worker_case_values(&second, NULL, NULL));
        assert_same(&third, &whole);
        remove(path);
        for (int f = 0; f < 2 * WORKER_CASE_RANKS; f++) {
            snprintf(name, sizeof name, "%s.rank-%d-%d", path, f / 2, f % 2);
            remove(name);
        }
    }
}

/* As a federation does between its rounds: owners and replicas begin with the new weights. */
FED_TEST(a_model_that_the_caller_changes_is_taught_again) {
    for (size_t k = 0; k < 3; k++) {
        worker_case here = case_of(collectives[k], NULL, NULL);
        here.optimizer = "adam:lr=0.01+cosine:steps=20";
        here.restart = true;
        memcpy(here.run, (uint32_t[4]){6, 5}, sizeof here.run);
        worker_case all = here;
        all.at_owners = false;
        assert_same(&here, &all);
    }
}

/* ---- What is pushed arrives ---- */

enum { WORKERS = 2, VALUES = 3000, STEPS = 40, QUIET = 400 };

typedef struct end {
    uint32_t rank;
    struct feddc_hub *hub;
    const char *codec, *pull;
    pthread_t thread;
    float weights[VALUES], grad[VALUES], replica[VALUES], residual[2 * VALUES];
    size_t residuals;
    double pushed[VALUES]; /* the sum of the gradients that this rank put in */
} end;

static fed_status subtract(void *user, uint32_t step, size_t offset, const float *sum, size_t n,
                           uint32_t added, fed_error *err) {
    end *e = user;
    (void)step;
    (void)err;
    FED_REQUIRE(added == WORKERS, FED_ESTATE);
    for (size_t i = 0; i < n; i++) {
        e->weights[offset + i] -= sum[i];
    }
    return FED_OK;
}

static void tell(void *user, uint32_t what, size_t offset, float *values, size_t n) {
    (void)what;
    memcpy(values, ((end *)user)->weights + offset, n * sizeof *values);
}

static void learn(void *user, uint32_t what, size_t offset, const float *values, size_t n) {
    (void)what;
    memcpy(((end *)user)->weights + offset, values, n * sizeof *values);
}

static void keep(void *user, size_t offset, const float *values, size_t n) {
    memcpy(((end *)user)->replica + offset, values, n * sizeof *values);
}

static void push_and_pull(end *e, feddc_exchange *x) {
    fed_error err = {0};
    uint32_t turn = 0;
    for (size_t i = 0; i < VALUES; i++) {
        e->replica[i] = e->weights[i] = 1;
    }
    assert_fed_ok_err(feddc_exchange_teach(x, turn++, 0, e->weights, &err));
    assert_fed_ok_err(feddc_exchange_teach(x, turn++, FEDDC_REPLICA, e->replica, &err));
    for (uint32_t step = 0; step < STEPS + QUIET; step++) {
        for (size_t i = 0; i < VALUES; i++) {
            e->grad[i] = step < STEPS ? 0.01F * sinf((float)(step * 31 + i * (7 + e->rank))) : 0.0F;
            e->pushed[i] += (double)e->grad[i];
        }
        feddc_exchange_put(x, turn, 0, e->grad, VALUES, false);
        assert_fed_ok_err(feddc_exchange_take(x, turn++, 0, VALUES, keep, e, &err));
    }
    e->residuals = feddc_exchange_state_size(x);
    assert_true(e->residuals <= VALUES);
    assert_fed_ok_err(feddc_exchange_save(x, e->residual, &err));
    assert_fed_ok_err(feddc_exchange_ask(x, turn, 0, e->weights, &err));
}

static void *take_part(void *user) {
    static const size_t tensor[] = {VALUES - 100, 100};
    end *e = user;
    fed_error err = {0};
    feddc_exchange *x = NULL;
    const feddc_owner owner = {
        .weights = e->weights, .step = subtract, .tell = tell, .learn = learn, .user = e};
    const feddc_exchange_options o = {
        .link = feddc_link_named("threads"),
        .place = {.rank = e->rank, .size = WORKERS + 1, .hub = e->hub, .listener = -1},
        .collective = star,
        .codec = e->codec,
        .pull = e->pull,
        .tensor = tensor,
        .tensors = 2,
        .owner = &owner};
    assert_fed_ok_err(feddc_exchange_open(&o, &x, &err));
    if (e->rank < WORKERS) {
        push_and_pull(e, x);
    } else {
        assert_fed_ok_err(feddc_exchange_serve(x, &err));
    }
    feddc_exchange_close(x, true);
    return NULL;
}

/* The owner's weights have all that was pushed, but for the residuals of pushes. When nothing is
 * pushed any more, both residuals empty, and the replicas become the owner's weights. */
static void check_conservation(const char *codec, const char *pull) {
    static end ends[WORKERS + 1];
    struct feddc_hub *hub = feddc_hub_new(WORKERS + 1);
    memset(ends, 0, sizeof ends);
    for (uint32_t r = 0; r <= WORKERS; r++) {
        ends[r].rank = r;
        ends[r].hub = hub;
        ends[r].codec = codec;
        ends[r].pull = pull;
        assert_int_equal(pthread_create(&ends[r].thread, NULL, take_part, &ends[r]), 0);
    }
    for (uint32_t r = 0; r <= WORKERS; r++) {
        pthread_join(ends[r].thread, NULL);
    }
    feddc_hub_free(hub);
    assert_memory_equal(ends[0].replica, ends[1].replica, sizeof ends[0].replica);
    assert_memory_equal(ends[0].weights, ends[2].weights, sizeof ends[0].weights);
    for (size_t i = 0; i < VALUES; i++) {
        double wanted = 1;
        for (uint32_t r = 0; r < WORKERS; r++) {
            const double kept = ends[r].residuals > 0 ? (double)ends[r].residual[i] : 0;
            wanted -= ends[r].pushed[i] - kept;
        }
        if (fabs((double)ends[0].weights[i] - wanted) > 1e-5) {
            fail_msg("%s, %s: value %zu is %g, and was pushed to %g", codec, pull, i,
                     (double)ends[0].weights[i], wanted);
        }
        if (fabs((double)ends[0].replica[i] - (double)ends[0].weights[i]) > 1e-4) {
            fail_msg("%s, %s: the replica's value %zu is %g, the owner's %g", codec, pull, i,
                     (double)ends[0].replica[i], (double)ends[0].weights[i]);
        }
    }
}

FED_TEST(what_was_pushed_arrives_in_owner_and_replicas) {
    check_conservation("3lc", "3lc");
    check_conservation("3lc:s=1.5", "int8");
    check_conservation("topk:p=0.05", "topk:p=0.05");
    check_conservation("float32", "float32");
}

static int set_up(void **state) {
    (void)fed_test_dir_make(state);
    worker_data_open(&data, fed_test_dir, TRAIN, TEST);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    worker_data_close(&data);
    fed_test_rmdir(fed_test_dir);
    return 0;
}

int main(void) {
    return fed_cases_run(set_up, tear_down);
}
