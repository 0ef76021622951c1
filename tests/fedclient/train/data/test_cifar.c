/* The CIFAR reader: accepted records, and errors, each with its position in the file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedclient/train/data/input.h"
#include "fedtrain/dataset.h"

enum { PIXELS = 3072, RECORD = 1 + PIXELS };

static uint8_t bytes[3 * (RECORD + 1)];

static int setup(void **state) {
    (void)state;
    memset(bytes, 0, sizeof bytes);
    return 0;
}

static fedtrain_input input_of(size_t len) {
    return (fedtrain_input){.path = "file.bin", .bytes = {FEDTRAIN_BORROWED, bytes, len}};
}

static void assert_refused(size_t len, size_t label_bytes, unsigned classes, const char *words) {
    fedtrain_dataset set = {0};
    fed_error err = {0};
    fedtrain_input in = input_of(len);
    assert_fed_status(fedtrain_cifar_parse(&in, label_bytes, classes, &set, &err), FED_EFORMAT);
    assert_fed_says(err, "file.bin: ");
    assert_fed_says(err, words);
    assert_ptr_equal(in.bytes.data, bytes);
    fedtrain_dataset_free(&set);
}

FED_TEST(test_files_that_end_inside_a_record_are_refused) {
    assert_refused(0, 1, 10, "ends at byte offset 0, inside record 0");
    assert_refused(1, 1, 10, "ends at byte offset 1, inside record 0");
    assert_refused(RECORD - 1, 1, 10, "inside record 0");
    assert_refused(RECORD + 1, 1, 10, "ends at byte offset 3074, inside record 1");
    assert_refused(RECORD, 2, 100, "inside record 0 (each has 3074 bytes)");
}

FED_TEST(test_labels_out_of_range_are_named_with_their_offset) {
    bytes[(size_t)2 * RECORD] = 10;
    assert_refused((size_t)3 * RECORD, 1, 10, "byte offset 6146: label 10 in record 2");
    bytes[RECORD + 2] = 100;
    assert_refused((size_t)2 * (RECORD + 1), 2, 100, "byte offset 3075: label 100 in record 1");
}

FED_TEST(test_files_are_appended_to_each_other) {
    fedtrain_dataset set = {0};
    fed_error err = {0};
    for (size_t i = 0; i < FEDTRAIN_BLOCKS; i++) {
        bytes[0] = (uint8_t)i;
        fedtrain_input in = input_of((size_t)2 * RECORD);
        assert_fed_ok_err(fedtrain_cifar_parse(&in, 1, 10, &set, &err));
        assert_null(in.bytes.data);
        assert_int_equal(set.count, 2 * (i + 1));
        assert_int_equal(set.label[2 * i], i);
    }
    fedtrain_input in = input_of(RECORD);
    assert_fed_status(fedtrain_cifar_parse(&in, 1, 10, &set, &err), FED_ERANGE);
    assert_fed_says(err, "8 files at most");
    fedtrain_dataset_free(&set);
}

int main(void) {
    return fed_cases_run_each(setup, NULL);
}
