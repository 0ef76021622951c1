/* Model descriptions: what they lay out, what they refuse and how, and the initial weights. */
#include "fed_test.h"

#include <math.h>

#include "fed/arch.h"
#include "fed/hash.h"

static fed_arch parse_or_fail(const char *text) {
    fed_arch arch;
    fed_error err = {0};
    assert_fed_ok_err(fed_arch_parse(text, &arch, &err));
    return arch;
}

static void test_named_models_have_their_published_sizes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t parameters;
    } known[] = {{"lr", 7850}, {"lenet5-caffe", 431080}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        fed_arch arch = parse_or_fail(known[i].name);
        assert_int_equal(arch.layout.size, known[i].parameters);
        assert_int_equal(arch.classes, 10);
        fed_arch_free(&arch);
    }
}

static void test_every_named_model_parses_and_its_text_is_canonical(void **state) {
    (void)state;
    size_t k = 0;
    for (; fed_arch_name(k) != NULL; k++) {
        fed_arch arch = parse_or_fail(fed_arch_name(k));
        assert_string_equal(arch.text, fed_arch_text(k));
        fed_arch_free(&arch);
    }
    assert_true(k >= 2);
    assert_null(fed_arch_text(k));
}

static void check_tensor(const fed_arch *arch, size_t i, const char *name, uint32_t rank,
                         const uint32_t *dims) {
    const fed_tensor *tensor = &arch->layout.tensors[i];
    assert_string_equal(tensor->name, name);
    assert_int_equal(tensor->rank, rank);
    assert_memory_equal(tensor->dims, dims, rank * sizeof *dims);
}

static void test_lenet_has_pytorchs_tensors(void **state) {
    (void)state;
    fed_arch arch = parse_or_fail("lenet5-caffe");
    assert_int_equal(arch.layout.count, 8);
    check_tensor(&arch, 0, "conv1.weight", 4, (uint32_t[]){20, 1, 5, 5});
    check_tensor(&arch, 1, "conv1.bias", 1, (uint32_t[]){20});
    check_tensor(&arch, 2, "conv2.weight", 4, (uint32_t[]){50, 20, 5, 5});
    check_tensor(&arch, 3, "conv2.bias", 1, (uint32_t[]){50});
    check_tensor(&arch, 4, "dense1.weight", 2, (uint32_t[]){500, 800});
    check_tensor(&arch, 5, "dense1.bias", 1, (uint32_t[]){500});
    check_tensor(&arch, 6, "dense2.weight", 2, (uint32_t[]){10, 500});
    check_tensor(&arch, 7, "dense2.bias", 1, (uint32_t[]){10});
    fed_arch_free(&arch);
}

static void check_shape(fed_shape shape, uint32_t c, uint32_t h, uint32_t w) {
    assert_int_equal(shape.c, c);
    assert_int_equal(shape.h, h);
    assert_int_equal(shape.w, w);
}

static void test_shapes_follow_from_layer_to_layer(void **state) {
    (void)state;
    fed_arch arch = parse_or_fail("input 3x9x12 | conv 4 2x3 | maxpool 3 | relu | dense 7");
    assert_int_equal(arch.layer_count, 4);
    check_shape(arch.layers[0].in, 3, 9, 12);
    check_shape(arch.layers[0].out, 4, 8, 10);
    assert_int_equal(arch.layers[0].kh, 2);
    assert_int_equal(arch.layers[0].kw, 3);
    check_shape(arch.layers[1].out, 4, 2, 3); /* odd rows and columns are dropped */
    assert_int_equal(arch.layers[1].kh, 3);
    assert_int_equal(arch.layers[1].kw, 3);
    check_shape(arch.layers[2].out, 4, 2, 3);
    assert_int_equal(arch.layers[2].kind, FED_LAYER_RELU);
    check_shape(arch.layers[3].in, 4, 2, 3);
    check_shape(arch.layers[3].out, 7, 1, 1);
    assert_int_equal(arch.layers[3].weight, 2);
    assert_int_equal(arch.classes, 7);
    fed_arch_free(&arch);
}

static void test_the_text_is_made_canonical(void **state) {
    (void)state;
    fed_arch arch = parse_or_fail("  input 0784x1x1|dense 010 |  relu|dense   2 ");
    assert_string_equal(arch.text, "input 784 | dense 10 | relu | dense 2");
    fed_arch again = parse_or_fail(arch.text);
    fed_error err = {0};
    assert_string_equal(again.text, arch.text);
    assert_fed_ok_err(fed_layout_match(&arch.layout, &again.layout, &err));
    fed_arch_free(&arch);
    fed_arch_free(&again);
}

static void test_a_wrong_text_is_refused_with_word_and_column(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"resnet", "\"resnet\"; there are: lr, lenet5-caffe"},
        {"", "no model is called \"\""},
        {"dense 10 | input 5", "column 1, \"dense\""},
        {"input", "ends at column 6"},
        {"input x", "column 7, \"x\""},
        {"input 28x28 | dense 10", "column 7, \"28x28\""},
        {"input 1x2x3x4 | dense 10", "column 7, \"1x2x3x4\""},
        {"input 0 | dense 10", "column 7, \"0\""},
        {"input 1x28x | dense 10", "column 7, \"1x28x\""},
        {"input -5 | dense 10", "column 7, \"-5\""},
        {"input 5.5 | dense 10", "column 7, \"5.5\""},
        {"input 5 dense 10", "column 9, \"dense\": expected \"|\""},
        {"input 5 | pool 2", "column 11, \"pool\": expected a layer"},
        {"input 5 |", "ends at column 10: expected a layer"},
        {"input 5 || dense 1", "column 10, \"|\": expected a layer"},
        {"input 5", "expected a dense layer as the last one"},
        {"input 5 | dense 3 | relu", "expected a dense layer as the last one"},
        {"input 5 | dense", "ends at column 16"},
        {"input 5 | dense 3x3", "column 17, \"3x3\""},
        {"input 5 | dense 4294967296", "column 17, \"4294967296\""},
        {"input 5 | dense 99999999999999999999", "column 17"},
        {"input 5 | relu 5 | dense 3", "column 16, \"5\""},
        {"input 1x9x9 | conv 3 | dense 3", "column 22, \"|\": expected the kernel"},
        {"input 1x9x9 | conv 3 5 | dense 3", "column 22, \"5\": expected the kernel"},
        {"input 1x9x9 | conv 3 10x3 | dense 3", "column 22, \"10x3\": expected a kernel no larger"},
        {"input 1x9x9 | conv 3 3x10 | dense 3", "column 22, \"3x10\": expected a kernel no larger"},
        {"input 1x9x8 | maxpool 9 | dense 3", "column 23, \"9\": expected a window no larger"},
        {"input 1x9x8 | maxpool 2x2 | dense 3", "column 23, \"2x2\""},
        {"input 5 | dense \x1b[31m", "column 17: only printable ASCII"},
        {"input 5 | dense 3\n", "column 18: only printable ASCII"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fed_arch arch = {.classes = 77};
        fed_error err = {0};
        assert_fed_status(fed_arch_parse(bad[i].text, &arch, &err), FED_EFORMAT);
        if (strstr(err.text, bad[i].words) == NULL) {
            fail_msg("\"%s\": \"%s\" does not say \"%s\"", bad[i].text, err.text, bad[i].words);
        }
        assert_int_equal(arch.classes, 77); /* untouched */
    }
}

static void test_sizes_that_overflow_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "input 4294967295 | dense 1",
        "input 65536x65536x1 | dense 1",
        "input 4294967295x4294967295x4294967295 | dense 1",
        "input 2097152x2097152x4194304 | dense 1", /* 2^64 values */
        "input 1000000 | dense 4294967295",
        "input 268435456 | dense 8", /* 2^31 parameters and the bias */
        "input 1x16384x16384 | conv 2 1x1 | dense 1",
        "input 16x1000x1000 | conv 4294967295 1x1 | dense 1",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fed_arch arch;
        fed_error err = {0};
        assert_fed_status(fed_arch_parse(bad[i], &arch, &err), FED_EFORMAT);
        assert_non_null(strstr(err.text, "2^"));
    }
}

static void test_too_long_a_text_is_refused(void **state) {
    (void)state;
    static char text[FED_ARCH_TEXT + 100] = "input 9";
    while (strlen(text) < FED_ARCH_TEXT) {
        strcat(text, " | dense 1");
    }
    fed_arch arch;
    fed_error err = {0};
    assert_fed_status(fed_arch_parse(text, &arch, &err), FED_EFORMAT);
    assert_fed_says(err, "4095 characters");
}

static float *draw(const fed_arch *arch, uint64_t seed) {
    float *values = malloc(arch->layout.size * sizeof *values);
    fed_arch_init_values(arch, seed, values);
    return values;
}

static void test_initial_weights_fill_their_range_and_biases_are_zero(void **state) {
    (void)state;
    fed_arch arch = parse_or_fail("lenet5-caffe");
    float *values = draw(&arch, 1);
    static const double fan_in[] = {25, 500, 800, 500};
    for (size_t i = 0; i < arch.layout.count; i++) {
        const fed_tensor *tensor = &arch.layout.tensors[i];
        double bound = i % 2 == 0 ? sqrt(3.0 / fan_in[i / 2]) : 0.0;
        double largest = 0, sum = 0;
        for (size_t k = 0; k < tensor->size; k++) {
            double v = (double)values[tensor->offset + k];
            largest = fmax(largest, fabs(v));
            sum += v;
        }
        assert_true(largest <= bound * 1.0000001);
        assert_true(largest >= bound * 0.98);
        assert_true(fabs(sum / (double)tensor->size) <= bound * 0.1);
    }
    free(values);
    fed_arch_free(&arch);
}

/* Golden bits, worked out by a second implementation: a seed must start the same experiment in
 * every release. */
static void test_a_seed_gives_the_same_bits_for_ever(void **state) {
    (void)state;
    fed_arch arch = parse_or_fail("lenet5-caffe");
    float *values = draw(&arch, 1);
    assert_true(values[0] == 0x1.09d62p-2f);
    assert_true(fed_digest(values, arch.layout.size) == UINT64_C(0x7cc19bbecbf4ebd7));
    float *other = draw(&arch, 2);
    assert_true(other[0] != values[0]);
    free(other);
    free(values);
    fed_arch_free(&arch);
}

static void test_a_tensors_weights_do_not_depend_on_the_others(void **state) {
    (void)state;
    /* The second layer's weights are the same whatever the size of the first one's. */
    fed_arch a = parse_or_fail("input 50 | dense 4 | dense 3");
    fed_arch b = parse_or_fail("input 99 | dense 4 | dense 3");
    float *x = draw(&a, 9), *y = draw(&b, 9);
    const fed_tensor *wa = fed_layout_find(&a.layout, "dense2.weight");
    const fed_tensor *wb = fed_layout_find(&b.layout, "dense2.weight");
    assert_int_equal(wa->size, 12);
    assert_memory_equal(x + wa->offset, y + wb->offset, wa->size * sizeof *x);
    free(x);
    free(y);
    fed_arch_free(&a);
    fed_arch_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_models_have_their_published_sizes),
        cmocka_unit_test(test_every_named_model_parses_and_its_text_is_canonical),
        cmocka_unit_test(test_lenet_has_pytorchs_tensors),
        cmocka_unit_test(test_shapes_follow_from_layer_to_layer),
        cmocka_unit_test(test_the_text_is_made_canonical),
        cmocka_unit_test(test_a_wrong_text_is_refused_with_word_and_column),
        cmocka_unit_test(test_sizes_that_overflow_are_refused),
        cmocka_unit_test(test_too_long_a_text_is_refused),
        cmocka_unit_test(test_initial_weights_fill_their_range_and_biases_are_zero),
        cmocka_unit_test(test_a_seed_gives_the_same_bits_for_ever),
        cmocka_unit_test(test_a_tensors_weights_do_not_depend_on_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
