/* Initial weights: their range, their bits for a seed, and that no tensor depends on another. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "arch_case.h"
#include "fed/hash.h"

static float *draw(const fed_arch *arch, uint64_t seed) {
    float *values = malloc(arch->layout.size * sizeof *values);
    fed_arch_init_values(arch, seed, values);
    return values;
}

FED_TEST(test_initial_weights_fill_their_range_and_biases_are_zero) {
    fed_arch arch = arch_case_parse("lenet5-caffe");
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

/* The bits must be the same in every release. */
FED_TEST(test_a_seed_gives_the_same_bits_for_ever) {
    fed_arch arch = arch_case_parse("lenet5-caffe");
    float *values = draw(&arch, 1);
    assert_true(values[0] == 0x1.09d62p-2f);
    assert_true(fed_digest(values, arch.layout.size) == UINT64_C(0x7cc19bbecbf4ebd7));
    float *other = draw(&arch, 2);
    assert_true(other[0] != values[0]);
    free(other);
    free(values);
    fed_arch_free(&arch);
}

FED_TEST(test_a_tensors_weights_do_not_depend_on_the_others) {
    fed_arch a = arch_case_parse("input 50 | dense 4 | dense 3");
    fed_arch b = arch_case_parse("input 99 | dense 4 | dense 3");
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

static void measure(const fed_arch *arch, const float *values, const char *name, double *largest,
                    double *mean) {
    const fed_tensor *tensor = fed_layout_find(&arch->layout, name);
    assert_non_null(tensor);
    *largest = *mean = 0.0;
    for (size_t k = 0; k < tensor->size; k++) {
        double v = fabs((double)values[tensor->offset + k]);
        *largest = fmax(*largest, v);
        *mean += v / (double)tensor->size;
    }
}

static void check_uniform(const fed_arch *arch, const float *values, const char *name,
                          double bound) {
    double largest, mean;
    measure(arch, values, name, &largest, &mean);
    if (largest > bound * 1.0000001 || largest < bound * 0.95 || fabs(mean / bound - 0.5) > 0.1) {
        fail_msg("%s: largest %g, mean size %g; not uniform in +-%g", name, largest, mean, bound);
    }
}

static void check_constant(const fed_arch *arch, const float *values, const char *name,
                           float wanted) {
    const fed_tensor *tensor = fed_layout_find(&arch->layout, name);
    assert_non_null(tensor);
    for (size_t k = 0; k < tensor->size; k++) {
        assert_true(values[tensor->offset + k] == wanted);
    }
}

FED_TEST(test_he_is_wider_and_batch_norm_starts_as_the_identity) {
    fed_arch arch = arch_case_parse("input 4x9x9 init he | conv 30 3 groups 2 | bn | dense 20");
    float *values = draw(&arch, 1);
    check_uniform(&arch, values, "conv1.weight", sqrt(6.0 / 18));
    check_uniform(&arch, values, "dense1.weight", sqrt(6.0 / (30 * 7 * 7)));
    check_constant(&arch, values, "conv1.bias", 0.0f);
    check_constant(&arch, values, "bn1.weight", 1.0f);
    check_constant(&arch, values, "bn1.bias", 0.0f);
    check_constant(&arch, values, "bn1.running_mean", 0.0f);
    check_constant(&arch, values, "bn1.running_var", 1.0f);
    free(values);
    fed_arch_free(&arch);
}

FED_TEST(test_embeddings_and_lstms_have_ranges_of_their_own) {
    fed_arch arch =
        arch_case_parse("input tokens 5 of 90 | encoder: embedding 25 "
                        "| rnn: lstm 25 layers 2 | decoder: dense 90 each tied encoder");
    float *values = draw(&arch, 1);
    check_uniform(&arch, values, "encoder.weight", 0.1);
    static const char *const names[] = {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0",
                                        "weight_ih_l1", "weight_hh_l1", "bias_ih_l1", "bias_hh_l1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "rnn.%s", names[i]);
        check_uniform(&arch, values, name, 0.2);
    }
    check_constant(&arch, values, "decoder.bias", 0.0f);
    free(values);
    fed_arch_free(&arch);
}
