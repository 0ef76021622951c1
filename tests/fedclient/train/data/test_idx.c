/* The IDX reader: accepted files, and errors, each with its position in the file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedtrain/dataset.h"

static char images[600], labels[600];

/* A file with two pictures of 2 x 3 pixels, and the file of their labels. */
static const uint8_t good_images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,   0,  0,
                                      0, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 255, 10, 11};
static const uint8_t good_labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 4, 9};

static void put(const char *path, const uint8_t *data, size_t len) {
    fed_test_put("", path, data, len);
}

static int setup(void **state) {
    (void)fed_test_dir_make(state);
    snprintf(images, sizeof images, "%s/train-images-idx3-ubyte", fed_test_dir);
    snprintf(labels, sizeof labels, "%s/train-labels-idx1-ubyte", fed_test_dir);
    put(images, good_images, sizeof good_images);
    put(labels, good_labels, sizeof good_labels);
    return 0;
}

static void assert_refused(fed_status wanted, const char *file, const char *words) {
    fedtrain_dataset set = {0};
    fed_error err = {0};
    assert_fed_status(fedtrain_dataset_load_idx(images, labels, &set, &err), wanted);
    if (strstr(err.text, file) == NULL || strstr(err.text, words) == NULL) {
        fail_msg("\"%s\" or \"%s\" is missing in the error: %s", file, words, err.text);
    }
    assert_int_equal(set.block_count, 0);
    assert_null(set.label);
}

FED_TEST(test_a_pair_is_read_as_it_is_in_the_files) {
    fedtrain_dataset set;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_dataset_load_idx(images, labels, &set, &err));
    assert_int_equal(set.count, 2);
    assert_int_equal(set.shape.c, 1);
    assert_int_equal(set.shape.h, 2);
    assert_int_equal(set.shape.w, 3);
    assert_int_equal(set.classes, 10);
    assert_int_equal(set.block[0].bytes.owner, FEDTRAIN_MAPPED);
    assert_memory_equal(set.block[0].first, good_images + 16, 12);
    assert_memory_equal(set.label, good_labels + 8, 2);
    fedtrain_dataset_free(&set);
    assert_null(set.label);
}

FED_TEST(test_every_truncation_is_refused) {
    for (size_t len = 0; len < sizeof good_images; len++) {
        char offset[64];
        snprintf(offset, sizeof offset, "ends at byte offset %zu", len);
        put(images, good_images, len);
        assert_refused(FED_EFORMAT, images, offset);
    }
    put(images, good_images, sizeof good_images);
    for (size_t len = 0; len < sizeof good_labels; len++) {
        put(labels, good_labels, len);
        assert_refused(FED_EFORMAT, labels, "ends at byte offset");
    }
}

static void damage(const char *path, const uint8_t *good, size_t len, size_t at, uint8_t value) {
    uint8_t bytes[64];
    memcpy(bytes, good, len);
    bytes[at] = value;
    put(path, bytes, len);
}

FED_TEST(test_a_wrong_magic_is_refused) {
    damage(images, good_images, sizeof good_images, 3, 1);
    assert_refused(FED_EFORMAT, images, "byte offset 0: magic number 0x00000801");
    put(images, good_images, sizeof good_images);
    damage(labels, good_labels, sizeof good_labels, 2, 9);
    assert_refused(FED_EFORMAT, labels, "byte offset 0: magic number 0x00000901");
}

FED_TEST(test_files_in_each_others_place_are_refused) {
    put(images, good_labels, sizeof good_labels);
    assert_refused(FED_EFORMAT, images, "byte offset");
}

FED_TEST(test_counts_that_lie_are_refused) {
    damage(images, good_images, sizeof good_images, 7, 3);
    assert_refused(FED_EFORMAT, images, "in sample 2 of the 3");
    damage(images, good_images, sizeof good_images, 4, 255);
    assert_refused(FED_EFORMAT, images, "in sample 2 of the 4278190082");
    damage(images, good_images, sizeof good_images, 7, 1);
    assert_refused(FED_EFORMAT, images, "byte offset 22: 6 bytes more");
    damage(images, good_images, sizeof good_images, 7, 0);
    assert_refused(FED_EFORMAT, images, "byte offset 4: a count of 0");
}

FED_TEST(test_impossible_picture_sizes_are_refused) {
    damage(images, good_images, sizeof good_images, 11, 0);
    assert_refused(FED_EFORMAT, images, "byte offset 8: images of 0 x 3");
    damage(images, good_images, sizeof good_images, 12, 255);
    assert_refused(FED_EFORMAT, images, "byte offset 8");
    damage(images, good_images, sizeof good_images, 15, 200);
    assert_refused(FED_EFORMAT, images, "in sample 0 of the 2");
}

FED_TEST(test_counts_that_differ_are_refused) {
    const uint8_t three[] = {0, 0, 8, 1, 0, 0, 0, 3, 4, 9, 1};
    put(labels, three, sizeof three);
    assert_refused(FED_EFORMAT, labels, "byte offset 4: 3 labels");
}

FED_TEST(test_a_missing_file_is_named) {
    assert_int_equal(remove(labels), 0);
    assert_refused(FED_ENOTFOUND, labels, "");
    assert_int_equal(remove(images), 0);
    assert_refused(FED_ENOTFOUND, images, "");
}

int main(void) {
    return fed_cases_run_each(setup, fed_test_dir_remove);
}
