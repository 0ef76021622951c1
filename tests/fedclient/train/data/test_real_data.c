/* The data sets themselves, where they are at hand: what is known about each must come out.
 *
 *   FED_MNIST_DIR           else build/data/mnist
 *   FED_FASHION_MNIST_DIR   else where Debian's dataset-fashion-mnist puts it
 *   FED_CIFAR10_DIR         else build/data/cifar10
 *   FED_TEXT_DIR            else ../shared/data/text
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fedtrain/split.h"

enum { SKIPPED = 77 };

static int found;

static const char *directory_of(const char *variable, const char *otherwise) {
    const char *directory = getenv(variable);
    return directory != NULL ? directory : otherwise;
}

static bool open_set(const char *name, const char *directory, const char *part,
                     fedtrain_dataset *set) {
    fed_error err = {0};
    fed_status status = fedtrain_dataset_open(name, directory, part, set, &err);
    if (status == FED_ENOTFOUND) {
        printf("skipped: %s\n", err.text);
        return false;
    }
    assert_fed_ok_err(status);
    found++;
    return true;
}

static void assert_each_class_has(const fedtrain_dataset *set, size_t wanted) {
    size_t count[10] = {0};
    assert_int_equal(set->classes, 10);
    for (size_t i = 0; i < set->count; i++) {
        count[set->label[i]]++;
    }
    for (size_t c = 0; c < 10; c++) {
        assert_int_equal(count[c], wanted);
    }
}

static void assert_measured(const fedtrain_dataset *set, const float *mean, const float *deviation,
                            float tolerance) {
    float got_mean[3], got_deviation[3];
    fedtrain_dataset_measure(set, got_mean, got_deviation);
    for (size_t c = 0; c < set->shape.c; c++) {
        assert_true(fabsf(got_mean[c] - mean[c]) < tolerance);
        assert_true(fabsf(got_deviation[c] - deviation[c]) < tolerance);
    }
}

FED_TEST(test_mnist) {
    const char *directory = directory_of("FED_MNIST_DIR", FED_SOURCE_DIR "/build/data/mnist");
    const float mean = 0.1307F, deviation = 0.3081F;
    fedtrain_dataset train, test;
    if (!open_set("mnist", directory, "train", &train)) {
        skip();
    }
    assert_true(open_set("mnist", directory, "test", &test));
    assert_int_equal(train.count, 60000);
    assert_int_equal(test.count, 10000);
    assert_int_equal(train.label[0], 5);
    assert_int_equal(test.label[0], 7);
    assert_measured(&train, &mean, &deviation, 1e-4F);
    fedtrain_dataset_free(&train);
    fedtrain_dataset_free(&test);
}

FED_TEST(test_fashion_mnist_is_read_packed) {
    const char *directory =
        directory_of("FED_FASHION_MNIST_DIR", "/usr/share/datasets/fashion-mnist");
    const float mean = 0.2860F, deviation = 0.3530F;
    fedtrain_dataset train, test;
    if (!open_set("fashion-mnist", directory, "train", &train)) {
        skip();
    }
    assert_true(open_set("fashion-mnist", directory, "test", &test));
    assert_each_class_has(&train, 6000);
    assert_each_class_has(&test, 1000);
    assert_measured(&train, &mean, &deviation, 1e-4F);
    fedtrain_dataset_free(&train);
    fedtrain_dataset_free(&test);
}

/* Pixels that went through JPEG differ a little: only means and deviations are compared. */
FED_TEST(test_cifar_10) {
    const char *directory = directory_of("FED_CIFAR10_DIR", FED_SOURCE_DIR "/build/data/cifar10");
    const float mean[] = {0.4914F, 0.4822F, 0.4465F}, deviation[] = {0.2470F, 0.2435F, 0.2616F};
    fedtrain_dataset train, test;
    if (!open_set("cifar10", directory, "train", &train)) {
        skip();
    }
    assert_true(open_set("cifar10", directory, "test", &test));
    assert_each_class_has(&train, 5000);
    assert_each_class_has(&test, 1000);
    assert_measured(&train, mean, deviation, 5e-3F);
    fedtrain_dataset_free(&train);
    fedtrain_dataset_free(&test);
}

static bool open_text(const char *name, const char *part, fedtrain_text *text) {
    fed_error err = {0};
    const char *directory = directory_of("FED_TEXT_DIR", FED_SOURCE_DIR "/../shared/data/text");
    fed_status status = fedtrain_text_open(name, directory, part, NULL, text, &err);
    if (status == FED_ENOTFOUND) {
        printf("skipped: %s\n", err.text);
        return false;
    }
    assert_fed_ok_err(status);
    found++;
    return true;
}

/* The published counts of tokens, where <eos> counts as a token. */
FED_TEST(test_penn_treebank) {
    fedtrain_text valid, test;
    if (!open_text("ptb", "valid", &valid)) {
        skip();
    }
    assert_true(open_text("ptb", "test", &test));
    assert_int_equal(valid.count, 73760);
    assert_int_equal(valid.units, 3370);
    assert_int_equal(test.count, 82430);
    assert_int_equal(test.units, 3761);
    assert_true(fedtrain_vocabulary_size(valid.words) < 10000);
    assert_null(valid.group);
    fedtrain_text_free(&valid);
    fedtrain_text_free(&test);
}

FED_TEST(test_shakespeare_by_speaker) {
    fedtrain_text train, test;
    fedtrain_partition all;
    fed_error err = {0};
    if (!open_text("shakespeare", "train", &train)) {
        skip();
    }
    assert_true(open_text("shakespeare", "test", &test));
    assert_int_equal(train.count + test.count, 1115394);
    assert_int_equal(fedtrain_vocabulary_size(train.words), 65 + 1);
    assert_true(train.groups > 200 && train.groups < 400);
    const fedtrain_split split = {.kind = FEDTRAIN_BY_GROUP};
    assert_fed_ok_err(fedtrain_text_split(&train, split, train.groups, 1, &all, &err));
    size_t total = 0;
    for (uint32_t k = 0; k < train.groups; k++) {
        fedtrain_shard shard = fedtrain_partition_shard(&all, k);
        uint32_t *token;
        size_t count;
        assert_fed_ok(fedtrain_text_join(&train, shard.index, shard.count, &token, &count));
        total += count;
        free(token);
    }
    assert_int_equal(total, train.count);
    fedtrain_partition_free(&all);
    fedtrain_text_free(&train);
    fedtrain_text_free(&test);
}

int main(void) {
    int failed = fed_cases_run(NULL, NULL);
    return failed == 0 && found == 0 ? SKIPPED : failed;
}
