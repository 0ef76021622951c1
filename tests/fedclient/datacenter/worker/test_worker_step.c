/* The workers of a worker group, compared with one process and Algorithm 1 of CD-SGD. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/checkpoint.h"
#include "fedcodec/codec.h"
#include "fedtrain/batches.h"
#include "worker_case.h"

enum { TRAIN = 600, TEST = 200, BATCH = 8 };

static worker_data data;

static const char dense[] = "input 784 | dense 24 | relu | dense 10";
static const char normalised[] =
    "input 1x28x28 | conv 3 5 stride 3 | bn | relu | maxpool 2 | dense 10";

static size_t size_of(const char *model, size_t *trained) {
    fed_arch arch;
    fed_error err = {0};
    assert_fed_ok_err(fed_arch_parse(model, &arch, &err));
    const size_t size = arch.layout.size;
    *trained = arch.trained;
    fed_arch_free(&arch);
    return size;
}

static double furthest(const float *a, const float *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    }
    return most;
}

static float *values_of_one(const char *model, const char *optimizer, size_t batch, size_t steps) {
    fed_arch arch;
    fed_error err = {0};
    fedtrain_net *net;
    float loss;
    assert_fed_ok_err(fed_arch_parse(model, &arch, &err));
    assert_fed_ok_err(fedtrain_net_new(&arch, batch, NULL, &net, &err));
    fedtrain_job job = {.net = net, .steps = steps, .batch = batch, .seed = 3};
    assert_fed_ok_err(fed_optimizer_parse(optimizer, 0.1F, &job.optimizer, &err));
    fedtrain_job_use(&job, &data.train, &data.all);
    const size_t states = fedtrain_optimizer_state_size(&job.optimizer, arch.trained);
    float *values = calloc(arch.layout.size + states + 1, sizeof *values);
    assert_non_null(values);
    fed_arch_init_values(&arch, 7, values);
    assert_fed_ok_err(fedtrain_run(&job, values, values + arch.layout.size, &loss, &err));
    fedtrain_net_free(net);
    fed_arch_free(&arch);
    return values;
}

/* Sums of four batches of 8 round differently from one batch of 32: after 40 steps with momentum
 * the values agree within 1e-4. */
FED_TEST(a_worker_group_ends_where_one_process_ends) {
    size_t trained;
    (void)size_of(dense, &trained);
    float *one = values_of_one(dense, "momentum:lr=0.05", (size_t)4 * BATCH, 40);
    static const char *const optimizers[] = {"momentum:lr=0.05"};
    for (size_t k = 0; strcmp(feddc_collective_name(k), "nccl") != 0; k++) {
        /* The collectives from nccl on need a GPU. */
        const worker_case c = {.data = &data,
                               .model = dense,
                               .collective = feddc_collective_name(k),
                               .sync = "ssgd",
                               .optimizer = optimizers[0],
                               .workers = 4,
                               .batch = BATCH,
                               .run = {40}};
        float *group = worker_case_values(&c, NULL, NULL);
        const double far = furthest(one, group, trained);
        if (far > 1e-4) {
            fail_msg("%s: the values differ by %g from those of one process", c.collective, far);
        }
        free(group);
    }
    free(one);
}

FED_TEST(a_worker_group_of_one_is_one_process) {
    size_t trained;
    (void)size_of(dense, &trained);
    const worker_case c = {.data = &data,
                           .model = dense,
                           .sync = "ssgd",
                           .optimizer = "adam:lr=0.01",
                           .workers = 1,
                           .batch = 32,
                           .run = {25}};
    float *one = values_of_one(dense, c.optimizer, 32, 25),
          *group = worker_case_values(&c, NULL, NULL);
    assert_memory_equal(one, group, trained * sizeof *one);
    free(group);
    free(one);
}

static const char *const rules[][3] = {{"ssgd", NULL, NULL},
                                       {"odsgd", NULL, NULL},
                                       {"bitsgd", "3lc:s=1.75", "3lc"},
                                       {"bitsgd", "onebit", NULL},
                                       {"bitsgd", "sbc:p=0.05", "int8"},
                                       {"local:n=2", "3lc", NULL},
                                       {"local:n=3", "float16", "float16"},
                                       {"cdsgd:n=5,k=2", "twobit:t=0.01", NULL},
                                       {"cdsgd:n=5,k=0", "3lc", "3lc"},
                                       {"cdsgd:n=0,k=5", "int8", "int8"}};
enum { RULES = sizeof rules / sizeof rules[0] };

static worker_case case_of(size_t rule) {
    return (worker_case){.data = &data,
                         .model = dense,
                         .sync = rules[rule][0],
                         .codec = rules[rule][1],
                         .pull = rules[rule][2],
                         .optimizer = "momentum:lr=0.02",
                         .workers = 3,
                         .batch = BATCH};
}

FED_TEST(each_rule_learns_and_keeps_replicas_equal) {
    for (size_t k = 0; k < RULES; k += FED_TEST_TRIES(1, 3)) {
        worker_case c = case_of(k);
        c.run[0] = 90;
        fedtrain_score score;
        free(worker_case_values(&c, &score, NULL));
        if (score.correct < TEST * 8 / 10) {
            fail_msg("%s %s: only %zu of %d test pictures are right", c.sync,
                     c.codec != NULL ? c.codec : "", score.correct, TEST);
        }
    }
}

FED_TEST(backup_workers_are_not_waited_for) {
    static const size_t with[] = {2, 7}; /* the rules bitsgd and cdsgd */
    for (size_t k = 0; k < 2; k++) {
        worker_case c = case_of(with[k]);
        c.collective = "owners:aggregators=1";
        c.late = 1;
        c.run[0] = 90;
        fedtrain_score score;
        free(worker_case_values(&c, &score, NULL));
        assert_true(score.correct > TEST * 8 / 10);
    }
}

/* A rule may let a step begin before it has the last sum. At a pause between two runs, workers take
 * all sums first. */
FED_TEST(pauses_change_no_bit) {
    size_t trained;
    (void)size_of(dense, &trained);
    for (size_t k = 0; k < RULES; k += FED_TEST_TRIES(1, 3)) {
        worker_case whole = case_of(k), parts = case_of(k);
        whole.run[0] = 17;
        memcpy(parts.run, (uint32_t[4]){1, 6, 3, 7}, sizeof parts.run);
        float *a = worker_case_values(&whole, NULL, NULL),
              *b = worker_case_values(&parts, NULL, NULL);
        if (memcmp(a, b, trained * sizeof *a) != 0) {
            fail_msg("%s %s: the values of the two runs differ by %g", whole.sync,
                     whole.codec != NULL ? whole.codec : "", furthest(a, b, trained));
        }
        free(a);
        free(b);
    }
}

/* ---- CD-SGD, as Algorithm 1 reads ---- */

enum { ALGORITHM_WORKERS = 2, ALGORITHM_STEPS = 14 };
#define WARMUP     3
#define CORRECTION 3
#define RATE       0.1F
#define LOCAL_RATE 0.05F
static const char linear[] = "input 784 | dense 10";

typedef struct algorithm {
    fed_arch arch;
    fedtrain_net *net;
    fedtrain_job job;
    fedtrain_batches *batches;
    fedcodec codec;
    float *global;                   /* W_i of Algorithm 1 */
    float *local[ALGORITHM_WORKERS]; /* W_i^loc */
    float *next[ALGORITHM_WORKERS];  /* W_{i+1}^loc */
    float *residual[ALGORITHM_WORKERS], *gradient[ALGORITHM_WORKERS];
    float *sum;
    uint8_t *message;
    void *work;
} algorithm;

static float *floats(size_t n) {
    float *x = calloc(n, sizeof *x);
    assert_non_null(x);
    return x;
}

static void algorithm_open(algorithm *a) {
    fed_error err = {0};
    *a = (algorithm){0};
    assert_fed_ok_err(fed_arch_parse(linear, &a->arch, &err));
    assert_fed_ok_err(fedtrain_net_new(&a->arch, BATCH, NULL, &a->net, &err));
    assert_fed_ok_err(fedcodec_parse("twobit:t=0.01", &a->codec, &err));
    a->job = (fedtrain_job){.net = a->net, .steps = 1000, .batch = BATCH, .seed = 3};
    fedtrain_job_use(&a->job, &data.train, &data.all);
    const size_t n = a->arch.trained;
    a->global = floats(n);
    a->sum = floats(n);
    fed_arch_init_values(&a->arch, 7, a->global);
    for (int g = 0; g < ALGORITHM_WORKERS; g++) {
        a->local[g] = floats(n);
        a->next[g] = floats(n);
        a->residual[g] = floats(n);
        a->gradient[g] = floats(n);
        memcpy(a->local[g], a->global, n * sizeof(float));
    }
    a->message = malloc(fedcodec_bound(&a->codec, n) + 1);
    a->work = malloc(fedcodec_work_size(&a->codec, n) + 1);
    assert_fed_ok_err(fedtrain_batches_open(&a->job, a->global, &a->batches, &err));
}

static void algorithm_close(algorithm *a) {
    fedtrain_batches_close(a->batches);
    for (int g = 0; g < ALGORITHM_WORKERS; g++) {
        free(a->local[g]);
        free(a->next[g]);
        free(a->residual[g]);
        free(a->gradient[g]);
    }
    free(a->global);
    free(a->sum);
    free(a->message);
    free(a->work);
    fedtrain_net_free(a->net);
    fed_arch_free(&a->arch);
}

/* Lines 24 and 25: the server gets a compressed gradient; small tensors are uncompressed. */
static void push_compressed(algorithm *a, int g) {
    for (size_t k = 0; k < a->arch.layout.count; k++) {
        const fed_tensor *tensor = &a->arch.layout.tensors[k];
        float *x = a->gradient[g] + tensor->offset;
        size_t len;
        if (tensor->size < 16) {
            for (size_t i = 0; i < tensor->size; i++) {
                a->sum[tensor->offset + i] += x[i];
            }
            continue;
        }
        assert_fed_ok(fedcodec_encode(&a->codec, a->residual[g] + tensor->offset, x, tensor->size,
                                      a->work, a->message, fedcodec_bound(&a->codec, tensor->size),
                                      &len));
        assert_fed_ok(fedcodec_axpy(a->codec.vtable, a->message, len, 1, a->sum + tensor->offset,
                                    tensor->size));
    }
}

/* Iteration i = t + 1 of Algorithm 1 at all workers. */
static void iterate(algorithm *a, size_t t) {
    const size_t n = a->arch.trained;
    const bool warm = t < WARMUP, compressed = !warm && (t - WARMUP) % CORRECTION != 0;
    memset(a->sum, 0, n * sizeof(float));
    for (int g = 0; g < ALGORITHM_WORKERS; g++) {
        fedtrain_batch batch;
        fed_error err = {0};
        float loss, *x = a->gradient[g];
        fedtrain_batches_next(a->batches, t * ALGORITHM_WORKERS + (size_t)g, &batch);
        assert_fed_ok_err(
            fedtrain_net_gradient(a->net, warm ? a->global : a->local[g], &batch, x, &loss, &err));
        for (size_t i = 0; i < n; i++) { /* W_{i+1}^loc: lines 6 and 22 */
            a->next[g][i] = a->global[i] - LOCAL_RATE * x[i];
        }
        if (compressed) {
            push_compressed(a, g);
        } else {
            for (size_t i = 0; i < n; i++) {
                a->sum[i] += x[i];
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        a->global[i] -= RATE * (a->sum[i] / ALGORITHM_WORKERS);
    }
    for (int g = 0; g < ALGORITHM_WORKERS; g++) {
        memcpy(a->local[g], a->next[g], n * sizeof(float));
    }
}

FED_TEST(cdsgd_is_algorithm_1_step_by_step) {
    algorithm a;
    algorithm_open(&a);
    for (uint32_t steps = 1; steps <= ALGORITHM_STEPS; steps++) {
        iterate(&a, steps - 1);
        if (steps % FED_TEST_TRIES(1, 7) != 0) {
            continue;
        }
        const worker_case c = {.data = &data,
                               .model = linear,
                               /* One aggregator, like the paper's server. */
                               .collective = "owners:aggregators=1",
                               .sync = "cdsgd:n=3,k=3",
                               .codec = "twobit:t=0.01",
                               .optimizer = "sgd:lr=0.1",
                               .local_rate = (double)LOCAL_RATE,
                               .workers = ALGORITHM_WORKERS,
                               .batch = BATCH,
                               .run = {steps}};
        float *group = worker_case_values(&c, NULL, NULL);
        const double far = furthest(group, a.global, a.arch.trained);
        if (far > 1e-6) {
            fail_msg("the values differ by %g from Algorithm 1 after %u steps", far, steps);
        }
        free(group);
    }
    algorithm_close(&a);
}

FED_TEST(statistics_become_the_mean_of_all_ranks) {
    size_t trained;
    const size_t size = size_of(normalised, &trained);
    assert_true(size > trained);
    const worker_case c = {.data = &data,
                           .model = normalised,
                           .sync = "bitsgd",
                           .codec = "3lc",
                           .optimizer = "sgd:lr=0.1",
                           .workers = 3,
                           .batch = BATCH,
                           .run = {30, 30}};
    fedtrain_score score;
    float *group = worker_case_values(&c, &score, NULL);
    double sum = 0;
    for (size_t i = trained; i < size; i++) {
        sum += fabs((double)group[i]);
    }
    assert_true(sum > 0);
    assert_true(score.correct > TEST * 7 / 10);
    free(group);
}

static void remove_files(const char *path) {
    char name[340];
    remove(path);
    for (int k = 0; k < 2 * WORKER_CASE_RANKS; k++) {
        snprintf(name, sizeof name, "%s.rank-%d-%d", path, k / 2, k % 2);
        remove(name);
    }
}

FED_TEST(a_resumed_worker_group_leaves_the_same_bits) {
    char path[300];
    snprintf(path, sizeof path, "%s/checkpoint", fed_test_dir);
    for (size_t k = 0; k < RULES; k += FED_TEST_TRIES(1, 3)) {
        worker_case whole = case_of(k), first = case_of(k), second = case_of(k), third = case_of(k);
        whole.run[0] = 24;
        first.run[0] = 7;
        first.save = second.resume = second.save = third.resume = path;
        second.run[0] = 9;
        third.run[0] = 8;
        size_t trained;
        (void)size_of(dense, &trained);
        float *a = worker_case_values(&whole, NULL, NULL);
        free(worker_case_values(&first, NULL, NULL));
        free(worker_case_values(&second, NULL, NULL));
        float *b = worker_case_values(&third, NULL, NULL);
        if (memcmp(a, b, trained * sizeof *a) != 0) {
            fail_msg("%s %s: the values of the two runs differ by %g", whole.sync,
                     whole.codec != NULL ? whole.codec : "", furthest(a, b, trained));
        }
        free(a);
        free(b);
        remove_files(path);
    }
}

FED_TEST(another_number_of_workers_drops_residuals_and_says_so) {
    char path[300];
    snprintf(path, sizeof path, "%s/checkpoint", fed_test_dir);
    worker_case first = case_of(2), second = case_of(2);
    first.run[0] = 5;
    first.save = second.resume = path;
    second.run[0] = 5;
    second.workers = 2;
    free(worker_case_values(&first, NULL, NULL));
    worker_member members[WORKER_CASE_RANKS];
    worker_case_run(&second, members);
    assert_fed_status(members[0].status, FED_OK);
    assert_fed_status(members[1].status, FED_OK);
    assert_non_null(strstr(members[0].remark, "without the residuals"));
    /* its own 5 and 5, and those of the third worker, which is gone */
    assert_int_equal(members[0].tally[0].steps, 15);
    worker_case_free(members);
    remove_files(path);
}

FED_TEST(a_checkpoint_of_something_else_is_refused) {
    char path[300];
    snprintf(path, sizeof path, "%s/checkpoint", fed_test_dir);
    worker_case c = case_of(0);
    c.run[0] = 1;
    c.resume = path;
    c.workers = 1;
    worker_member members[WORKER_CASE_RANKS];
    worker_case_run(&c, members);
    assert_fed_status(members[0].status, FED_ENOTFOUND);
    worker_case_free(members);

    fed_arch arch;
    fed_error err = {0};
    assert_fed_ok_err(fed_arch_parse(dense, &arch, &err));
    float *values = floats(arch.layout.size);
    assert_fed_ok_err(fed_checkpoint_save(path, &arch.layout, values, NULL, &err));
    worker_case_run(&c, members);
    assert_fed_status(members[0].status, FED_EFORMAT);
    assert_fed_says(members[0].err, "no checkpoint of a worker group");
    worker_case_free(members);
    free(values);
    fed_arch_free(&arch);
    remove_files(path);
}

/* All ranks learn which word differs. Workers without a failure detector have this check only. */
FED_TEST(ranks_with_different_options_are_told_which) {
    static const worker_case like = {.data = &data,
                                     .model = dense,
                                     .sync = "bitsgd",
                                     .codec = "int8",
                                     .optimizer = "sgd:lr=0.1",
                                     .workers = 3,
                                     .batch = BATCH,
                                     .run = {2}};
    worker_case other[] = {like, like, like, like, like, like};
    static const char *const words[] = {"model",     "rule",  "optimizer",
                                        "optimizer", "batch", "local learning rate"};
    other[0].model = "input 784 | dense 24 | tanh | dense 10";
    other[1].sync = "local:n=2";
    other[2].optimizer = "sgd:lr=0.2";
    other[3].optimizer = "sgd:lr=0.1,decay=0.01";
    other[4].batch = BATCH / 2;
    other[5].local_rate = 0.3;
    for (size_t k = 0; k < sizeof other / sizeof other[0]; k++) {
        worker_case c = like;
        worker_member members[WORKER_CASE_RANKS];
        char says[80];
        snprintf(says, sizeof says, "rank 2 has another %s than rank 0", words[k]);
        c.last = &other[k];
        worker_case_run(&c, members);
        for (uint32_t r = 0; r < 3; r++) {
            assert_fed_status(members[r].status, FED_ESTATE);
            assert_fed_says(members[r].err, says);
        }
        worker_case_free(members);
    }
}

FED_TEST(an_unfit_optimizer_is_refused) {
    static const char *const wrong[][2] = {{"sgd+clip:norm=1", "clip"},
                                           {"sgd+stall:window=10", "stall"},
                                           {"sgd+scaffold:share=1", "scaffold"}};
    fed_arch arch;
    fed_error err = {0};
    assert_fed_ok_err(fed_arch_parse(linear, &arch, &err));
    for (size_t k = 0; k < 3; k++) {
        feddc_worker_options o = {.arch = &arch};
        feddc_worker *worker = NULL;
        assert_fed_ok_err(feddc_sync_parse("ssgd", &o.sync, &err));
        assert_fed_ok_err(fed_optimizer_parse(wrong[k][0], 0.1F, &o.job.optimizer, &err));
        fed_error why = {0};
        assert_fed_status(feddc_worker_new(&o, NULL, NULL, &worker, &why), FED_EINVAL);
        assert_fed_says(why, wrong[k][1]);
        assert_null(worker);
    }
    fed_arch_free(&arch);
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
