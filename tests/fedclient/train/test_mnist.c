/* Training on the real MNIST data, if its files are there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/arch.h"
#include "fedtrain/train.h"

enum { SKIPPED = 77 };

static fedtrain_dataset train, test;

static double accuracy(const char *model, const char *rule, float rate, size_t steps,
                       size_t batch) {
    fed_arch arch;
    fed_error err = {0};
    fedtrain_net *net;
    fedtrain_shard all;
    fedtrain_job job = {.set = &train, .shard = &all, .steps = steps, .batch = batch, .seed = 1};
    float loss;
    fedtrain_score score;
    assert_fed_ok_err(fed_arch_parse(model, &arch, &err));
    assert_fed_ok(fedtrain_net_new(&arch, 100, NULL, &net, NULL));
    assert_fed_ok_err(fed_optimizer_parse(rule, rate, &job.optimizer, &err));
    assert_fed_ok_err(fedtrain_shard_take(&train, FEDTRAIN_SPLIT_IID, 1, 0, 1, &all, &err));
    size_t n = arch.layout.size;
    float *params = calloc(n, sizeof *params), *state = calloc(2 * n + 1, sizeof *state);
    assert_true(params != NULL && state != NULL);
    fed_arch_init_values(&arch, 1, params);
    job.net = net;
    assert_fed_ok_err(fedtrain_run(&job, params, state, &loss, &err));
    assert_fed_ok_err(fedtrain_evaluate(net, 100, &test, params, &score, &err));
    free(params);
    free(state);
    fedtrain_shard_free(&all);
    fedtrain_net_free(net);
    fed_arch_free(&arch);
    return (double)score.correct / (double)score.samples;
}

FED_TEST(test_a_linear_model_passes_85_percent) {
    assert_true(accuracy("lr", "sgd", 0.1F, 500, 32) > 0.85);
}

FED_TEST(test_lenet5_passes_95_percent) {
#ifdef FED_SANITIZED
    skip();
#endif
    assert_true(accuracy("lenet5-caffe", "adam", 1e-3F, 300, 32) > 0.95);
}

FED_TEST(test_lenet5_learns_from_batches_of_two) {
#ifdef FED_SANITIZED
    skip();
#endif
    assert_true(accuracy("lenet5-caffe", "adam", 5e-4F, 1500, 2) > 0.90);
}

int main(void) {
    const char *directory = getenv("FED_MNIST_DIR");
    fed_error err = {0};
    if (directory == NULL) {
        directory = FED_SOURCE_DIR "/build/data/mnist";
    }
    if (fedtrain_dataset_load_mnist(directory, "train", &train, &err) != FED_OK ||
        fedtrain_dataset_load_mnist(directory, "t10k", &test, &err) != FED_OK) {
        printf("skipped: %s\n", err.text);
        fedtrain_dataset_free(&train);
        return SKIPPED;
    }
    int failed = fed_cases_run(NULL, NULL);
    fedtrain_dataset_free(&train);
    fedtrain_dataset_free(&test);
    return failed;
}
