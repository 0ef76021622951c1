/* Models without layers: texts that name tensors alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "arch_case.h"
#include "fed/bytes.h"

FED_TEST(test_a_vector_is_one_tensor) {
    fed_arch arch = arch_case_parse("  vector\t61706 # LeNet's values");
    assert_string_equal(arch.text, "vector 61706");
    assert_true(fed_arch_is_opaque(&arch));
    assert_int_equal(arch.layout.count, 1);
    assert_string_equal(arch.layout.tensors[0].name, "values");
    assert_int_equal(arch.layout.tensors[0].rank, 1);
    assert_int_equal(arch.layout.size, 61706);
    assert_int_equal(arch.trained, 61706);
    assert_int_equal(arch.layout.statistics, 0);
    fed_arch_free(&arch);
}

FED_TEST(test_tensors_have_names_and_shapes_in_the_order_of_the_text) {
    static const char text[] =
        "tensors conv1.weight 20x1x5x5 | conv-1.bias 20 | statistics bn_1.running_mean 3 | "
        "statistics bn_1.running_var 3";
    fed_arch arch = arch_case_parse(text);
    assert_string_equal(arch.text, text);
    assert_int_equal(arch.layout.count, 4);
    const fed_tensor *conv = fed_layout_find(&arch.layout, "conv1.weight");
    assert_non_null(conv);
    assert_int_equal(conv->rank, 4);
    assert_int_equal(conv->dims[0], 20);
    assert_int_equal(conv->dims[3], 5);
    assert_int_equal(fed_layout_find(&arch.layout, "conv-1.bias")->offset, 500);
    assert_int_equal(fed_layout_find(&arch.layout, "bn_1.running_var")->offset, 523);
    assert_int_equal(arch.trained, 520);
    assert_int_equal(arch.layout.size, 526);
    assert_int_equal(arch.layout.statistics, 2);
    assert_int_equal(fed_arch_summed(&arch), 520);
    fed_arch_free(&arch);
}

FED_TEST(test_a_tensor_may_have_eight_dimensions) {
    fed_arch arch = arch_case_parse("tensors a 1x2x1x2x1x2x1x2");
    assert_int_equal(arch.layout.tensors[0].rank, 8);
    assert_int_equal(arch.layout.size, 16);
    fed_arch_free(&arch);
    arch_case_refused("tensors a 1x2x1x2x1x2x1x2x1", "1 to 8 numbers above 0");
}

FED_TEST(test_initial_values_are_zero) {
    fed_arch arch = arch_case_parse("tensors a 2x3 | statistics b 2");
    float values[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    fed_arch_init_values(&arch, 1, values);
    for (size_t i = 0; i < 8; i++) {
        assert_true(values[i] == 0.0f);
    }
    fed_arch_free(&arch);
}

FED_TEST(test_wrong_words_are_refused_with_their_place) {
    arch_case_refused("vector", "model: the text ends at column 7: expected a tensor's shape");
    arch_case_refused("vector 0", "column 8, \"0\": expected a tensor's shape");
    arch_case_refused("vector 2x3", "expected one number, as in \"vector 61706\"");
    arch_case_refused("vector 5 | dense 2", "column 10, \"|\": expected one number");
    arch_case_refused("tensors", "ends at column 8: expected a tensor's name");
    arch_case_refused("tensors a", "ends at column 10: expected a tensor's shape");
    arch_case_refused("tensors a 3 b 4", "column 13, \"b\": expected \"|\" and another tensor");
    arch_case_refused("tensors a 3 |", "expected a tensor's name");
    arch_case_refused("tensors a<b 3", "column 9, \"a<b\": expected a tensor's name of letters");
    arch_case_refused("tensors a 3 | a 4", "column 15, \"a\": expected another name");
}

FED_TEST(test_statistics_come_last_and_are_not_all) {
    arch_case_refused("tensors statistics a 3 | b 3", "column 26, \"b\": expected \"statistics\"");
    arch_case_refused("tensors statistics a 3", "expected a tensor that is no running statistic");
}

FED_TEST(test_sizes_are_bounded) {
    fed_arch arch = arch_case_parse("vector 2147483648");
    assert_true(arch.layout.size == (size_t)1 << 31);
    fed_arch_free(&arch);
    arch_case_refused("vector 2147483649", "a model has at most 2^31 values");
    arch_case_refused("tensors a 2147483648 | b 1", "column 26, \"1\": expected a smaller tensor");
    arch_case_refused("tensors a 4294967295x4294967295x4294967295", "a smaller tensor");
}

FED_TEST(test_names_are_bounded) {
    char text[160];
    snprintf(text, sizeof text, "tensors %0127d 1", 0);
    fed_arch arch = arch_case_parse(text);
    assert_int_equal(strlen(arch.layout.tensors[0].name), 127);
    fed_arch_free(&arch);
    snprintf(text, sizeof text, "tensors %0128d 1", 0);
    arch_case_refused(text, "a name of at most 127 characters");
}

/* A text of n tensors, t0 of one value, t1 of two, and so on up to nine; `last` is added. */
static char *many(size_t n, const char *last) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_printf(&w, "tensors ");
    for (size_t k = 0; k < n; k++) {
        fed_write_printf(&w, "%st%zu %zu", k > 0 ? " | " : "", k, 1 + k % 9);
    }
    fed_write_printf(&w, "%s", last);
    fed_write_u8(&w, 0);
    assert_fed_ok(w.status);
    return (char *)w.data;
}

FED_TEST(test_65536_tensors_are_the_most) {
    char *text = many(FED_ARCH_TENSORS, "");
    fed_arch arch = arch_case_parse(text);
    assert_int_equal(arch.layout.count, 65536);
    assert_string_equal(arch.layout.tensors[65535].name, "t65535");
    assert_int_equal(arch.layout.tensors[65535].size, 1 + 65535 % 9);
    assert_string_equal(arch.text, text);
    fed_arch_free(&arch);
    free(text);
    text = many(FED_ARCH_TENSORS, " | t65536 1");
    arch_case_refused(text, "\"t65536\": expected the end: a model has at most 65,536 tensors");
    free(text);
}

FED_TEST(test_a_name_that_comes_twice_is_found_among_many) {
    char *text = many(FED_ARCH_TENSORS - 1, " | t17 1");
    arch_case_refused(text, "\"t17\": expected another name: two tensors have this one");
    free(text);
}

FED_TEST(test_who_needs_layers_is_told) {
    fed_error err = {0};
    fed_arch arch = arch_case_parse("vector 5");
    assert_int_equal(fed_arch_require_layers(&arch, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "tensors without layers"));
    fed_arch_free(&arch);
    arch = arch_case_parse("input 5 | dense 2");
    assert_fed_ok_err(fed_arch_require_layers(&arch, &err));
    fed_arch_free(&arch);
}
