/* Data sets by name: which files each name finds, packed or not, and the error if none fits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedtrain/dataset.h"

enum { RECORD = 3073, PIXELS = 3072 };

static void put_mnist(const char *part, uint8_t label) {
    const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4};
    const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 1, label};
    char name[64];
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", part);
    fed_test_put(fed_test_dir, name, images, sizeof images);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", part);
    fed_test_put(fed_test_dir, name, labels, sizeof labels);
}

/* Write two CIFAR records of `label_bytes` labels each. The last label is l in the first record and
 * l + 1 in the second. All other bytes are l. */
static void put_cifar(const char *name, size_t label_bytes, uint8_t l) {
    static uint8_t bytes[2 * (2 + PIXELS)];
    size_t record = label_bytes + PIXELS;
    for (size_t i = 0; i < 2; i++) {
        memset(bytes + i * record, l, record);
        bytes[i * record + label_bytes - 1] = (uint8_t)(l + i);
    }
    fed_test_put(fed_test_dir, name, bytes, 2 * record);
}

static fedtrain_dataset open_set(const char *name, const char *part) {
    fedtrain_dataset set;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_dataset_open(name, fed_test_dir, part, &set, &err));
    return set;
}

static void assert_refused(const char *name, const char *part, fed_status wanted,
                           const char *words) {
    fedtrain_dataset set = {.count = 77};
    fed_error err = {0};
    assert_fed_status(fedtrain_dataset_open(name, fed_test_dir, part, &set, &err), wanted);
    assert_int_equal(set.count, 77);
    assert_fed_says(err, words);
}

FED_TEST(test_mnist_is_found_under_its_usual_names) {
    put_mnist("train", 3);
    put_mnist("t10k", 5);
    fedtrain_dataset train = open_set("mnist", "train"), test = open_set("fashion-mnist", "test");
    fedtrain_dataset same;
    fed_error err = {0};
    assert_int_equal(train.label[0], 3);
    assert_int_equal(test.label[0], 5);
    assert_fed_ok_err(fedtrain_dataset_load_mnist(fed_test_dir, "t10k", &same, &err));
    assert_int_equal(same.label[0], 5);
    fedtrain_dataset_free(&train);
    fedtrain_dataset_free(&test);
    fedtrain_dataset_free(&same);
}

FED_TEST(test_cifar_10_is_five_files_of_one_set) {
    for (uint8_t i = 1; i <= 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "data_batch_%u.bin", i);
        put_cifar(name, 1, i);
    }
    put_cifar("test_batch.bin", 1, 8);
    fedtrain_dataset train = open_set("cifar10", "train"), test = open_set("cifar10", "test");
    assert_int_equal(train.count, 10);
    assert_int_equal(train.block_count, 5);
    assert_int_equal(train.shape.c * 10000 + train.shape.h * 100 + train.shape.w, 33232);
    assert_int_equal(test.classes, 10);
    const uint32_t index[] = {9, 0, 4};
    const uint32_t wanted[] = {6, 1, 3};
    static float x[3 * PIXELS];
    uint32_t label[3];
    fedtrain_dataset_gather(&train, index, 3, x, label);
    assert_memory_equal(label, wanted, sizeof label);
    assert_true(x[0] == 5 / 255.0F && x[PIXELS - 1] == 5 / 255.0F);
    assert_true(x[PIXELS] == 1 / 255.0F && x[3 * PIXELS - 1] == 3 / 255.0F);
    fedtrain_dataset_free(&train);
    fedtrain_dataset_free(&test);
    char gone[600];
    snprintf(gone, sizeof gone, "%s/data_batch_4.bin", fed_test_dir);
    assert_int_equal(remove(gone), 0);
    assert_refused("cifar10", "train", FED_ENOTFOUND, "data_batch_4.bin");
}

FED_TEST(test_cifar_100_has_the_fine_labels) {
    put_cifar("train.bin", 2, 60);
    put_cifar("test.bin", 2, 98);
    fedtrain_dataset train = open_set("cifar100", "train"), test = open_set("cifar100", "test");
    assert_int_equal(train.label[1], 61);
    assert_int_equal(test.classes, 100);
    fedtrain_dataset_free(&train);
    fedtrain_dataset_free(&test);
}

FED_TEST(test_a_table_has_its_option) {
    fed_test_put(fed_test_dir, "train.csv", "3,0.5\n1,0.25\n", 13);
    fed_test_put(fed_test_dir, "test.csv", "x,y\n0.5,3\n", 10);
    fedtrain_dataset train = open_set("csv:label=first", "train");
    fedtrain_dataset test = open_set("csv", "test");
    assert_int_equal(train.label[0], 3);
    assert_int_equal(test.label[0], 3);
    fedtrain_dataset_free(&train);
    fedtrain_dataset_free(&test);
    test = open_set("csv:target=x", "test");
    assert_true(test.target[0] == 0.5F);
    assert_null(test.label);
    fedtrain_dataset_free(&test);
}

FED_TEST(test_unknown_names_parts_and_options_are_refused) {
    assert_refused("mnis", "train", FED_EINVAL, "unknown data set \"mnis\": write mnist, ");
    assert_refused("mnist2", "train", FED_EINVAL, "cifar100 or csv (:label=... or :target=...)");
    assert_refused("mnist:label=1", "train", FED_EINVAL, "unknown data");
    assert_refused("csv:labels=1", "train", FED_EINVAL, "unknown data");
    assert_refused("", "train", FED_EINVAL, "unknown data");
    assert_refused("cifar10", "valid", FED_EINVAL, "no part \"valid\": write train or test");
}

FED_TEST(test_a_missing_file_is_named_with_both_endings) {
    assert_refused("mnist", "train", FED_ENOTFOUND, "train-images-idx3-ubyte, nor one packed");
    assert_refused("csv", "test", FED_ENOTFOUND, "test.csv");
}

FED_TEST(test_too_long_a_directory_is_refused) {
    static char longest[2000];
    memset(longest, 'd', sizeof longest - 1);
    fedtrain_dataset set;
    fed_error err = {0};
    assert_fed_status(fedtrain_dataset_open("csv", longest, "test", &set, &err), FED_EINVAL);
    assert_fed_says(err, "longer than");
}

FED_TEST(test_the_names_can_be_listed) {
    size_t names = 0;
    while (fedtrain_dataset_name(names) != NULL) {
        names++;
    }
    assert_int_equal(names, 5);
    assert_string_equal(fedtrain_dataset_name(0), "mnist");
}

int main(void) {
    return fed_cases_run_each(fed_test_dir_make, fed_test_dir_remove);
}
