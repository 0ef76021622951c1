/* Checkpoints: the exact bytes of a file, the way back, and files that lie. */
#include "fed_test.h"

#include <math.h>
#include <unistd.h>

#include "fed/checkpoint.h"
#include "fed/file.h"

static char dir[256], path[300];
static fed_layout layout;
static const float values[3] = {1.0f, -2.5f, 0x1p-149f};

static int set_up(void **state) {
    (void)state;
    fed_test_tmpdir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    fed_layout_init(&layout);
    assert_fed_ok(fed_layout_add(&layout, "w", 2, (uint32_t[]){1, 2}));
    assert_fed_ok(fed_layout_add(&layout, "b", 1, (uint32_t[]){1}));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fed_layout_free(&layout);
    fed_test_rmdir(dir);
    return 0;
}

/* Header length as 8 little-endian bytes, a header padded to a multiple of 8, then the values. The
 * offsets count from the first byte behind the header. */
static const char golden[] = "\x70\x00\x00\x00\x00\x00\x00\x00"
                             "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                             "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}  "
                             "\x00\x00\x80\x3f"
                             "\x00\x00\x20\xc0"
                             "\x01\x00\x00";

enum { GOLDEN_SIZE = sizeof golden }; /* the literal's NUL is the last byte of the last value */

static void test_a_saved_file_has_exactly_these_bytes(void **state) {
    (void)state;
    fed_error err = {0};
    assert_fed_ok_err(fed_checkpoint_save(path, &layout, values, NULL, &err));
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_ok_err(fed_file_read(path, 10000, &data, &len, &err));
    assert_int_equal(len, GOLDEN_SIZE);
    assert_memory_equal(data, golden, GOLDEN_SIZE);
    free(data);
}

static void test_a_saved_model_is_loaded_bit_by_bit(void **state) {
    (void)state;
    static const char *const metadata[] = {"format", "pt", "model", "input 2 | dense 1", NULL};
    fed_error err = {0};
    fed_model model;
    assert_fed_ok_err(fed_checkpoint_save(path, &layout, values, metadata, &err));
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    assert_fed_ok_err(fed_layout_match(&layout, &model.layout, &err));
    assert_memory_equal(model.values, values, sizeof values);
    fed_model_free(&model);
}

static void test_tensors_come_in_the_order_of_their_data(void **state) {
    (void)state;
    static const char file[] = "\x70\x00\x00\x00\x00\x00\x00\x00"
                               "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
                               "\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}"
                               "  "
                               "\x00\x00\x80\x3f\x00\x00\x20\xc0\x01\x00\x00";
    fed_error err = {0};
    fed_model model;
    assert_fed_ok_err(fed_checkpoint_parse("x", (const uint8_t *)file, sizeof file, &model, &err));
    assert_fed_ok_err(fed_layout_match(&layout, &model.layout, &err));
    assert_memory_equal(model.values, values, sizeof values);
    fed_model_free(&model);
}

static void test_a_file_cut_anywhere_or_with_a_byte_more_is_refused(void **state) {
    (void)state;
    for (size_t len = 0; len <= GOLDEN_SIZE + 1; len++) {
        uint8_t *exact = calloc(len + 1, 1);
        memcpy(exact, golden, len < GOLDEN_SIZE ? len : GOLDEN_SIZE);
        fed_model model = {.values = NULL};
        fed_error err = {0};
        fed_status status = fed_checkpoint_parse("x", exact, len, &model, &err);
        free(exact);
        assert_fed_status(status, len == GOLDEN_SIZE ? FED_OK : FED_EFORMAT);
        fed_model_free(&model);
    }
}

static void test_a_header_length_that_lies_is_refused(void **state) {
    (void)state;
    static const uint64_t lies[] = {
        0, 1, 111, 113, 124, 125, UINT32_MAX, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        uint8_t file[GOLDEN_SIZE];
        memcpy(file, golden, sizeof file);
        for (int k = 0; k < 8; k++) {
            file[k] = (uint8_t)(lies[i] >> (8 * k));
        }
        fed_model model;
        fed_error err = {0};
        assert_fed_status(fed_checkpoint_parse("lie.st", file, sizeof file, &model, &err),
                          FED_EFORMAT);
        assert_memory_equal(err.text, "lie.st: ", 8);
    }
}

static void test_a_header_that_is_huge_is_refused(void **state) {
    (void)state;
    size_t header_len = ((size_t)1 << 22) + 8;
    uint8_t *file = malloc(8 + header_len);
    memset(file, ' ', 8 + header_len);
    for (int k = 0; k < 8; k++) {
        file[k] = (uint8_t)(header_len >> (8 * k));
    }
    memcpy(file + 8, "{}", 2);
    fed_model model;
    fed_error err = {0};
    assert_fed_status(fed_checkpoint_parse("x", file, 8 + header_len, &model, &err), FED_EFORMAT);
    free(file);
}

static void test_values_that_are_not_finite_are_neither_saved_nor_loaded(void **state) {
    (void)state;
    static const float bad[] = {1.0f, 2.0f, NAN};
    fed_error err = {0};
    assert_fed_status(fed_checkpoint_save(path, &layout, bad, NULL, &err), FED_ENONFINITE);
    assert_non_null(strstr(err.text, "value 0 of tensor \"b\""));
    assert_int_not_equal(access(path, F_OK), 0);

    uint8_t file[GOLDEN_SIZE];
    memcpy(file, golden, sizeof file);
    memcpy(file + GOLDEN_SIZE - 8, "\x00\x00\x80\xff", 4); /* -infinity */
    fed_model model;
    assert_fed_status(fed_checkpoint_parse("x", file, sizeof file, &model, &err), FED_ENONFINITE);
    assert_non_null(strstr(err.text, "value 1 of tensor \"w\""));
}

static void test_saving_where_nothing_can_be_saved_names_the_path(void **state) {
    (void)state;
    char none[400];
    snprintf(none, sizeof none, "%s/none/model.safetensors", dir);
    fed_error err = {0};
    assert_fed_status(fed_checkpoint_save(none, &layout, values, NULL, &err), FED_ENOTFOUND);
    assert_non_null(strstr(err.text, none));
    fed_model model;
    assert_fed_status(fed_checkpoint_load(none, &model, &err), FED_ENOTFOUND);
    assert_non_null(strstr(err.text, none));
}

static void test_a_model_without_tensors_round_trips(void **state) {
    (void)state;
    fed_layout empty;
    fed_layout_init(&empty);
    fed_error err = {0};
    fed_model model;
    assert_fed_ok_err(fed_checkpoint_save(path, &empty, NULL, NULL, &err));
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    assert_int_equal(model.layout.count, 0);
    fed_model_free(&model);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_saved_file_has_exactly_these_bytes),
        TEST(test_a_saved_model_is_loaded_bit_by_bit),
        TEST(test_tensors_come_in_the_order_of_their_data),
        TEST(test_a_file_cut_anywhere_or_with_a_byte_more_is_refused),
        TEST(test_a_header_length_that_lies_is_refused),
        TEST(test_a_header_that_is_huge_is_refused),
        TEST(test_values_that_are_not_finite_are_neither_saved_nor_loaded),
        TEST(test_saving_where_nothing_can_be_saved_names_the_path),
        TEST(test_a_model_without_tensors_round_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
