/* Checkpoints: the bytes of a written file, reading it back, and files with wrong contents. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>
#include <unistd.h>

#include "common/arch/safetensors.h"
#include "fed/bytes.h"
#include "fed/checkpoint.h"
#include "fed/file.h"

static char path[300];
static fed_layout layout;
static const float values[3] = {1.0f, -2.5f, 0x1p-149f};

static int set_up(void **state) {
    (void)fed_test_dir_make(state);
    snprintf(path, sizeof path, "%s/model.safetensors", fed_test_dir);
    fed_layout_init(&layout);
    assert_fed_ok(fed_layout_add(&layout, "w", 2, (uint32_t[]){1, 2}));
    assert_fed_ok(fed_layout_add(&layout, "b", 1, (uint32_t[]){1}));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fed_layout_free(&layout);
    fed_test_rmdir(fed_test_dir);
    return 0;
}

/* The header's length as 8 little-endian bytes, the header padded to a multiple of 8 bytes, then
 * the values. Offsets count from the first byte after the header. */
static const char golden[] = "\x70\x00\x00\x00\x00\x00\x00\x00"
                             "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                             "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}  "
                             "\x00\x00\x80\x3f"
                             "\x00\x00\x20\xc0"
                             "\x01\x00\x00";

enum {
    GOLDEN_SIZE = sizeof golden
}; /* The literal's closing NUL is the last byte of the last value. */

FED_TEST(test_a_saved_file_has_exactly_these_bytes) {
    fed_error err = {0};
    assert_fed_ok_err(fed_checkpoint_save(path, &layout, values, NULL, &err));
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_ok_err(fed_file_read(path, 10000, &data, &len, &err));
    assert_int_equal(len, GOLDEN_SIZE);
    assert_memory_equal(data, golden, GOLDEN_SIZE);
    free(data);
}

FED_TEST(test_a_saved_model_is_loaded_bit_by_bit) {
    static const char *const metadata[] = {"format", "pt", "model", "input 2 | dense 1", NULL};
    fed_error err = {0};
    fed_model model;
    assert_fed_ok_err(fed_checkpoint_save(path, &layout, values, metadata, &err));
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    assert_fed_ok_err(fed_layout_match(&layout, &model.layout, &err));
    assert_memory_equal(model.values, values, sizeof values);
    fed_model_free(&model);
}

FED_TEST(test_tensors_come_in_the_order_of_their_data) {
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

FED_TEST(test_a_file_cut_anywhere_or_with_a_byte_more_is_refused) {
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

FED_TEST(test_a_header_length_that_lies_is_refused) {
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

FED_TEST(test_a_header_that_is_huge_is_refused) {
    size_t header_len = FED_SAFETENSORS_HEADER + 8;
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

FED_TEST(test_values_that_are_not_finite_are_neither_saved_nor_loaded) {
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

FED_TEST(test_saving_where_nothing_can_be_saved_names_the_path) {
    char none[400];
    snprintf(none, sizeof none, "%s/none/model.safetensors", fed_test_dir);
    fed_error err = {0};
    assert_fed_status(fed_checkpoint_save(none, &layout, values, NULL, &err), FED_ENOTFOUND);
    assert_non_null(strstr(err.text, none));
    fed_model model;
    assert_fed_status(fed_checkpoint_load(none, &model, &err), FED_ENOTFOUND);
    assert_non_null(strstr(err.text, none));
}

FED_TEST(test_a_model_without_tensors_round_trips) {
    fed_layout empty;
    fed_layout_init(&empty);
    fed_error err = {0};
    fed_model model;
    assert_fed_ok_err(fed_checkpoint_save(path, &empty, NULL, NULL, &err));
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    assert_int_equal(model.layout.count, 0);
    fed_model_free(&model);
}

static void put_file(const char *header, const void *data, size_t len) {
    uint8_t file[2000];
    fed_writer w;
    fed_writer_fixed(&w, file, sizeof file);
    fed_write_u64(&w, strlen(header));
    fed_write_bytes(&w, header, strlen(header));
    fed_write_bytes(&w, data, len);
    assert_fed_ok(w.status);
    fed_test_put(fed_test_dir, "model.safetensors", w.data, w.len);
}

static fed_status read_by_name(float *back, fed_error *err) {
    fed_checkpoint *file = NULL;
    assert_fed_ok(fed_checkpoint_open(path, &file, err));
    fed_status status = fed_checkpoint_read(file, &layout, back, err);
    fed_checkpoint_close(file);
    return status;
}

#define T(name, type, shape, begin, end)                                                           \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end  \
    "]}"

FED_TEST(test_tensors_are_read_by_name_in_any_order_and_type) {
    /* 2^-24 and -1.5 as float16, 3 as bfloat16, and an int64 counter as in PyTorch's BatchNorm. */
    put_file("{\"__metadata__\":{\"format\":\"pt\"}," T("b", "BF16", "1", "4", "6") "," T(
                 "w", "F16", "1,2", "0", "4") "," T("bn1.num_batches_tracked", "I64", "", "6",
                                                    "14") "," T("optimizer.state", "F32", "1", "14",
                                                                "18") "}",
             "\x01\x00\x00\xbe\x40\x40\x01\0\0\0\0\0\0\0\0\0\0\0", 18);
    float back[3] = {0};
    fed_error err = {0};
    assert_fed_ok_err(read_by_name(back, &err));
    assert_true(back[0] == 0x1p-24f && back[1] == -1.5f && back[2] == 3.0f);
}

FED_TEST(test_halves_become_the_same_numbers) {
    static const struct {
        uint16_t half;
        float value;
    } known[] = {{0x0000, 0.0f},       {0x3c00, 1.0f},     {0xc000, -2.0f},
                 {0x7bff, 65504.0f},   {0x0400, 0x1p-14f}, {0x03ff, 0x3ffp-24f},
                 {0x3555, 0x555p-12f}, {0x8001, -0x1p-24f}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint8_t data[2] = {(uint8_t)known[i].half, (uint8_t)(known[i].half >> 8)};
        fed_error err = {0};
        fed_model model;
        put_file("{" T("x", "F16", "", "0", "2") "}", data, 2);
        assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
        assert_memory_equal(model.values, &known[i].value, sizeof(float));
        fed_model_free(&model);
    }
    fed_error err = {0};
    fed_model model;
    put_file("{" T("x", "F16", "", "0", "2") "}", "\x00\x7c", 2);
    assert_fed_status(fed_checkpoint_load(path, &model, &err), FED_ENONFINITE);
}

FED_TEST(test_tensors_that_do_not_fit_are_named) {
    static const struct {
        const char *header, *words;
        size_t len;
    } bad[] = {
        {"{" T("w", "F32", "1,2", "0", "8") "}", "it lacks b", 8},
        {"{" T("w", "F32", "1,2", "0", "8") "," T("b", "F32", "1", "8", "12") "," T("c", "F32", "1",
                                                                                    "12", "16") "}",
         "the model has no c", 16},
        {"{" T("w", "F32", "1,2", "0", "8") "," T("bias", "F32", "1", "8", "12") "}",
         "it lacks b; the model has no bias", 12},
        {"{" T("w", "F32", "2,1", "0", "8") "," T("b", "F32", "1", "8", "12") "}",
         "tensor \"w\" is 2x1, but 1x2 in the model", 12},
        {"{" T("w", "F32", "2", "0", "8") "," T("b", "F32", "", "8", "12") "}",
         "tensor \"w\" is 2, but 1x2 in the model", 12},
        {"{" T("w", "F32", "1,2", "0", "8") "," T("b", "I32", "1", "8", "12") "}",
         "tensor \"b\" is of type I32", 12},
        {"{" T("1", "F32", "", "0", "4") "," T("2", "F32", "", "4", "8") "," T(
             "3", "F32", "", "8", "12") "," T("4", "F32", "", "12", "16") "," T("5", "F32", "",
                                                                                "16", "20") "}",
         "it lacks w, b; the model has no 1, 2, 3 and 2 more", 20},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        static const uint8_t zeros[20];
        float back[3];
        fed_error err = {0};
        put_file(bad[i].header, zeros, bad[i].len);
        assert_fed_status(read_by_name(back, &err), FED_EFORMAT);
        assert_fed_says(err, bad[i].words);
        assert_fed_says(err, path);
    }
}

FED_TEST(test_notes_are_read_back) {
    static const char *const metadata[] = {"model", "input 2 | dense 1", "step", "12", NULL};
    fed_error err = {0};
    fed_checkpoint *file = NULL;
    assert_fed_ok_err(fed_checkpoint_save(path, &layout, values, metadata, &err));
    assert_fed_ok_err(fed_checkpoint_open(path, &file, &err));
    assert_string_equal(fed_checkpoint_note(file, "model"), "input 2 | dense 1");
    assert_string_equal(fed_checkpoint_note(file, "step"), "12");
    assert_null(fed_checkpoint_note(file, "epoch"));
    assert_int_equal(fed_checkpoint_find(file, "w")->dims[1], 2);
    assert_null(fed_checkpoint_find(file, "v"));
    fed_checkpoint_close(file);
}

int main(void) {
    return fed_cases_run_each(set_up, tear_down);
}
