/* The reader of tables: accepted files, and errors, each with its line and column. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedclient/train/data/input.h"
#include "fedtrain/dataset.h"

static fedtrain_input input_of(const char *text, size_t len) {
    return (fedtrain_input){.path = "t.csv",
                            .bytes = {FEDTRAIN_BORROWED, (const uint8_t *)text, len}};
}

static fedtrain_dataset parse(const char *text, const char *label) {
    fedtrain_dataset set = {0};
    fed_error err = {0};
    fedtrain_input in = input_of(text, strlen(text));
    assert_fed_ok_err(fedtrain_csv_parse(&in, label, NULL, &set, &err));
    return set;
}

static void assert_refused_bytes(const char *text, size_t len, const char *label,
                                 const char *words) {
    fedtrain_dataset set = {0};
    fed_error err = {0};
    fedtrain_input in = input_of(text, len);
    assert_fed_status(fedtrain_csv_parse(&in, label, NULL, &set, &err), FED_EFORMAT);
    assert_fed_says(err, "t.csv: ");
    assert_fed_says(err, words);
    assert_int_equal(set.block_count, 0);
    fedtrain_dataset_free(&set);
}

static void assert_refused(const char *text, const char *label, const char *words) {
    assert_refused_bytes(text, strlen(text), label, words);
}

/* Check that the text gives two samples: (0.5, -2) of class 3 and (1e-3, 40) of class 7. */
static void check_two(const char *text, const char *label) {
    fedtrain_dataset set = parse(text, label);
    const uint32_t index[] = {1, 0};
    const float wanted[] = {1e-3F, 40, 0.5F, -2};
    float x[4];
    uint32_t got[2];
    assert_int_equal(set.count, 2);
    assert_int_equal(set.shape.c, 2);
    assert_int_equal(set.shape.h, 1);
    assert_int_equal(set.shape.w, 1);
    assert_int_equal(set.classes, 8);
    fedtrain_dataset_gather(&set, index, 2, x, got);
    assert_memory_equal(x, wanted, sizeof x);
    assert_int_equal(got[0], 7);
    assert_int_equal(got[1], 3);
    fedtrain_dataset_free(&set);
}

FED_TEST(test_the_label_is_first_last_or_named) {
    check_two("0.5,-2,3\n1e-3,40,7\n", "last");
    check_two("3,0.5,-2\n7,.001,4e1\n", "first");
    check_two("a,kind,b\n0.5,3,-2\n1e-3,7,40\n", "kind");
    check_two("kind,a,b\n3,0.5,-2\n7,1e-3,40\n", "first");
    check_two("1,kind,3\n0.5,3,-2\n1e-3,7,40\n", "kind");
}

FED_TEST(test_line_ends_blanks_and_quotes_do_not_matter) {
    check_two("0.5,-2,3\n1e-3,40,7", "last");
    check_two("0.5,-2,3\r\n1e-3,40,7\r\n\r\n", "last");
    check_two("\n\n 0.5 ,\t-2 , 3 \n\n1e-3,40,7 \n\n", "last");
    check_two("\"0.5\",\"-2\" ,3\n\"1e-3\",40,7.0\n", "last");
    check_two("\"a, or \"\"a\"\"\",b,kind\n0.5,-2,3\n1e-3,40,7\n", "kind");
    check_two("a,\"kind \"\"of\"\" it\",b\n0.5,3,-2\n1e-3,7,40\n", "kind \"of\" it");
}

FED_TEST(test_a_table_can_be_normalised_by_column) {
    fedtrain_dataset set = parse("1,1000002,0\n3,1000004,1\n", "last");
    float mean[2], deviation[2], x[2];
    uint32_t label;
    const uint32_t second = 1;
    fedtrain_dataset_measure(&set, mean, deviation);
    assert_true(mean[0] == 2 && mean[1] == 1000003);
    assert_true(deviation[0] == 1 && deviation[1] == 1);
    assert_fed_ok(fedtrain_dataset_normalise(&set, mean, deviation));
    fedtrain_dataset_gather(&set, &second, 1, x, &label);
    assert_true(x[0] == 1 && x[1] == 1);
    fedtrain_dataset_free(&set);
}

FED_TEST(test_what_is_no_number_is_named_with_line_and_column) {
    assert_refused("1,2,3\n4,5x,6\n", "last", "line 2, column 2: \"5x\": not a number");
    assert_refused("a,b,c\n\n4,,6\n", "last", "line 3, column 2: \"\": this field is empty");
    assert_refused("1,2,3\nnan,5,6\n", "last", "line 2, column 1: \"nan\"");
    assert_refused("1,2,3\n1,inf,6\n", "last", "line 2, column 2: \"inf\"");
    assert_refused("1,2,3\n1,1e39,6\n", "last", "column 2: \"1e39\": not a number that a float");
    assert_refused("1,2,3\n1,0x10,6\n", "last", "column 2: \"0x10\"");
}

FED_TEST(test_labels_that_are_no_classes_are_refused) {
    assert_refused("1,2\n1,256\n", "last", "line 2, column 2: \"256\": the label must be");
    assert_refused("1,2\n-1,5\n", "first", "line 2, column 1: \"-1\": the label must be");
    assert_refused("1,2\n1,0.5\n", "last", "from 0 to 255");
}

FED_TEST(test_lines_of_other_lengths_are_refused) {
    assert_refused("1,2,3\n4,5\n", "last", "line 2 has fewer than the 3 columns");
    assert_refused("1,2,3\n4,5,6,7\n", "last", "line 2 has more than the 3 columns");
    assert_refused("1,2,3\n4,5,6,\n", "last", "line 2 has more than the 3 columns");
    assert_refused("1\n2\n", "last", "line 1, column 1: \"1\": one column only");
}

FED_TEST(test_labels_that_no_column_has_are_refused) {
    assert_refused("a,b\n1,2\n", "kind", "the header has no column \"kind\"");
    assert_refused("1,2\n1,2\n", "kind", "there is no header");
    assert_refused("1,2\n1,2\n", "2", "there is no header");
}

FED_TEST(test_a_name_that_means_another_column_too_is_refused) {
    assert_refused("last,a,b\n1,2,3\n", "last",
                   "line 1: \"last\" is the name of column 1, and means the last column, too");
    assert_refused("a,b,first\n1,2,3\n", "first", "\"first\" is the name of column 3");
    check_two("first,a,b\n3,0.5,-2\n7,1e-3,40\n", "first");
    check_two("a,b,last\n0.5,-2,3\n1e-3,40,7\n", "last");
}

FED_TEST(test_a_first_line_that_may_be_a_header_or_a_sample_is_refused) {
    static const char *const missing[] = {"NA", "n/a", "NaN", "null", "?", "-", ""};
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "1,%s,3\n4,5,6\n", missing[i]);
        assert_refused(text, "last", "line 1, column 2: a value is missing: write a number");
    }
    assert_refused("0,1,2,3\n4,5,6,7\n", "last", "line 1 numbers the columns");
    assert_refused("1,2,3,4\n4,5,6,7\n", "last", "line 1 numbers the columns");
    check_two(",x,kind\n0.5,-2,3\n1e-3,40,7\n", "last"); /* a column without a name */
    check_two("0,1,kind\n0.5,-2,3\n1e-3,40,7\n", "last");
}

FED_TEST(test_quotes_must_be_closed) {
    assert_refused("1,2\n\"1,2\n", "last", "line 2, column 1: \"1,2\": the quotes are not closed");
    assert_refused("1,2\n\"1\"5,2\n", "last", "line 2, column 1: \"1\": something stands behind");
}

FED_TEST(test_files_that_are_no_tables_are_refused) {
    static char longest[1000];
    memset(longest, '1', sizeof longest - 1);
    assert_refused("", "last", "no line with numbers");
    assert_refused("\n \n\r\n", "last", "no line with numbers");
    assert_refused("a,b\n", "last", "nothing follows the header");
    assert_refused(longest, "last", "line 1, column 1: \"1111111111");
    assert_refused_bytes("1,2\n1,2\0x\n", 10, "last", "a byte of value 0");
}

FED_TEST(test_too_many_columns_are_refused) {
    size_t len = 2 * 65537;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, ',', len);
    assert_refused_bytes(text, len, "last", "more than 65536 columns");
    free(text);
}

static const char names[] = "setosa\n iris virginica \r\n\nversicolor\n";

FED_TEST(test_classes_may_have_names_in_an_order_that_a_file_gives) {
    static const char text[] = "1,versicolor\n2,setosa\n3,\"iris virginica\"\n";
    fedtrain_input in = input_of(text, sizeof text - 1),
                   classes = input_of(names, sizeof names - 1);
    fedtrain_dataset set = {0};
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_csv_parse(&in, "last", &classes, &set, &err));
    assert_int_equal(set.count, 3); /* the first line has numbers, so it is no header */
    assert_int_equal(set.label[0], 2);
    assert_int_equal(set.label[1], 0);
    assert_int_equal(set.label[2], 1);
    fedtrain_dataset_free(&set);
}

static uint64_t digest_of(const char *listed, size_t len) {
    static const char text[] = "x,kind\n1,low\n2,mid\n";
    fedtrain_input in = input_of(text, sizeof text - 1), classes = input_of(listed, len);
    fedtrain_dataset set = {0};
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_csv_parse(&in, "kind", &classes, &set, &err));
    const uint64_t digest = set.class_names;
    fedtrain_dataset_free(&set);
    return digest;
}

FED_TEST(test_the_digest_of_the_classes_is_of_their_names_and_order) {
    static const char *const others[] = {"mid\nlow\n", "low\nmid\nhigh\n", "lowmid\nlow\nmid\n"};
    const uint64_t digest = digest_of("low\nmid\n", 8);
    assert_true(digest != 0);
    assert_true(digest_of(" low\r\n\n\tmid", 11) == digest);
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        assert_true(digest_of(others[k], strlen(others[k])) != digest);
    }
    fedtrain_dataset numbers = parse("1,2,0\n3,4,1\n", "last");
    assert_true(numbers.class_names == 0);
    fedtrain_dataset_free(&numbers);
}

FED_TEST(test_a_class_without_a_name_in_the_file_is_told) {
    static const char text[] = "x,kind\n1,setosa\n2,rose\n";
    fedtrain_input in = input_of(text, sizeof text - 1),
                   classes = input_of(names, sizeof names - 1);
    fedtrain_dataset set = {0};
    fed_error err = {0};
    assert_fed_status(fedtrain_csv_parse(&in, "kind", &classes, &set, &err), FED_EFORMAT);
    assert_fed_says(err, "line 3, column 2: \"rose\": this class is not in classes.txt");
    fedtrain_dataset_free(&set);
    classes = input_of("\n \n", 3);
    assert_fed_status(fedtrain_csv_parse(&in, "kind", &classes, &set, &err), FED_EFORMAT);
    assert_fed_says(err, "no names of classes");
    classes = input_of("low\nmid\n low\n", 14);
    assert_fed_status(fedtrain_csv_parse(&in, "kind", &classes, &set, &err), FED_EFORMAT);
    assert_fed_says(err, "line 3: \"low\" is the name of class 0 already");
}

FED_TEST(test_targets_are_real_numbers) {
    static const char text[] = "a,price,b\n1,-2.5,3\n4,1e6,6\n";
    fedtrain_input in = input_of(text, sizeof text - 1);
    fedtrain_dataset set = {0};
    fed_error err = {0};
    const uint32_t index[] = {1, 0};
    uint32_t label[2] = {7, 7};
    float x[4], target[2];
    assert_fed_ok_err(fedtrain_csv_parse_targets(&in, "price", &set, &err));
    assert_int_equal(set.count, 2);
    assert_int_equal(set.shape.c, 2);
    assert_int_equal(set.classes, 0);
    fedtrain_dataset_gather(&set, index, 2, x, label);
    fedtrain_dataset_gather_targets(&set, index, 2, target);
    assert_true(x[0] == 4 && x[1] == 6 && x[2] == 1 && x[3] == 3);
    assert_true(target[0] == 1e6F && target[1] == -2.5F);
    assert_int_equal(label[0], 7);
    fedtrain_dataset_free(&set);
}

static void assert_target_refused(const char *text, const char *target, const char *words) {
    fedtrain_dataset set = {0};
    fed_error err = {0};
    fedtrain_input in = input_of(text, strlen(text));
    assert_fed_status(fedtrain_csv_parse_targets(&in, target, &set, &err), FED_EFORMAT);
    assert_fed_says(err, words);
    assert_null(set.target);
}

FED_TEST(test_targets_that_are_no_numbers_are_refused) {
    assert_target_refused("1,2\n1,nan\n", "last", "line 2, column 2: \"nan\": not a number");
    assert_target_refused("1,2\n1,-inf\n", "last", "line 2, column 2: \"-inf\": not a number");
    assert_target_refused("1,2\n1,1e39\n", "last", "\"1e39\": not a number that a float can hold");
    assert_target_refused("1,2\n,2\n", "first", "line 2, column 1: \"\": this field is empty");
    assert_target_refused("a,b\n1,dear\n", "b", "line 2, column 2: \"dear\": not a number");
    assert_target_refused("a,b\n1,2\n", "price", "the header has no column \"price\"");
}

FED_TEST(test_a_set_can_be_normalised_by_some_samples_of_another) {
    fedtrain_dataset train = parse("100,0\n1,0\n3,1\n", "last"), test = parse("5,1\n", "last");
    const uint32_t own[] = {1, 2}, first = 0;
    uint32_t label;
    float x;
    assert_fed_ok(fedtrain_dataset_normalise_by(&test, &train, own, 2));
    fedtrain_dataset_gather(&test, &first, 1, &x, &label);
    assert_true(x == 3); /* scaled: (5 - 2) / 1 */
    assert_fed_ok(fedtrain_dataset_normalise_by(&test, &test, NULL, 1));
    fedtrain_dataset_gather(&test, &first, 1, &x, &label);
    assert_true(x == 0); /* minus the mean of the test samples, 5 */
    assert_fed_status(fedtrain_dataset_normalise_by(&test, &train, own, 0), FED_EINVAL);
    fedtrain_dataset_free(&train);
    fedtrain_dataset_free(&test);
}
