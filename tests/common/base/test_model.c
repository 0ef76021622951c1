/* Layouts of tensors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/model.h"

FED_TEST(test_tensors_lie_one_behind_the_other) {
    fed_layout layout;
    fed_layout_init(&layout);
    assert_fed_ok(fed_layout_add(&layout, "a.weight", 2, (uint32_t[]){3, 4}));
    assert_fed_ok(fed_layout_add(&layout, "scalar", 0, NULL));
    assert_fed_ok(fed_layout_add(&layout, "a.bias", 1, (uint32_t[]){5}));
    assert_int_equal(layout.count, 3);
    assert_int_equal(layout.size, 18);
    assert_int_equal(layout.tensors[0].size, 12);
    assert_int_equal(layout.tensors[1].offset, 12);
    assert_int_equal(layout.tensors[1].size, 1);
    assert_int_equal(layout.tensors[2].offset, 13);
    assert_ptr_equal(fed_layout_find(&layout, "a.bias"), &layout.tensors[2]);
    assert_null(fed_layout_find(&layout, "a"));
    fed_layout_free(&layout);
    assert_int_equal(layout.count, 0);
    assert_null(layout.tensors);
}

FED_TEST(test_what_makes_no_tensor_is_refused_and_changes_nothing) {
    char name[FED_TENSOR_NAME + 1];
    memset(name, 'n', sizeof name);
    name[FED_TENSOR_NAME] = '\0';
    uint32_t ones[FED_TENSOR_RANK + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    fed_layout layout;
    fed_layout_init(&layout);
    assert_fed_ok(fed_layout_add(&layout, name + 1, FED_TENSOR_RANK, ones));
    assert_fed_status(fed_layout_add(&layout, name, 1, ones), FED_EINVAL);
    assert_fed_status(fed_layout_add(&layout, name + 1, 1, ones), FED_EINVAL);
    assert_fed_status(fed_layout_add(&layout, "", 1, ones), FED_EINVAL);
    assert_fed_status(fed_layout_add(&layout, "x", FED_TENSOR_RANK + 1, ones), FED_EINVAL);
    assert_fed_status(fed_layout_add(&layout, "x", 2, (uint32_t[]){3, 0}), FED_ERANGE);
    assert_int_equal(layout.count, 1);
    assert_int_equal(layout.size, 1);
    fed_layout_free(&layout);
}

FED_TEST(test_sizes_past_the_limit_are_refused_without_overflow) {
    uint32_t huge[FED_TENSOR_RANK];
    memset(huge, 0xff, sizeof huge);
    fed_layout layout;
    fed_layout_init(&layout);
    for (uint32_t rank = 2; rank <= FED_TENSOR_RANK; rank++) {
        assert_fed_status(fed_layout_add(&layout, "x", rank, huge), FED_ERANGE);
    }
    /* A layout can have at most 2^40 values. */
    assert_fed_ok(fed_layout_add(&layout, "half", 2, (uint32_t[]){1u << 20, 1u << 19}));
    assert_fed_ok(fed_layout_add(&layout, "other half", 2, (uint32_t[]){1u << 20, 1u << 19}));
    assert_fed_status(fed_layout_add(&layout, "one more", 0, NULL), FED_ERANGE);
    fed_layout_free(&layout);
}

static void add_or_fail(fed_layout *layout, const char *name, uint32_t rank, uint32_t d0,
                        uint32_t d1) {
    assert_fed_ok(fed_layout_add(layout, name, rank, (uint32_t[]){d0, d1}));
}

static void check_mismatch(const fed_layout *a, const fed_layout *b, const char *words) {
    fed_error err = {0};
    assert_fed_status(fed_layout_match(a, b, &err), FED_EINVAL);
    if (strstr(err.text, words) == NULL) {
        fail_msg("the error \"%s\" does not contain \"%s\"", err.text, words);
    }
}

FED_TEST(test_match_names_the_first_difference) {
    fed_layout a, b;
    fed_layout_init(&a);
    fed_layout_init(&b);
    add_or_fail(&a, "w", 2, 2, 3);
    add_or_fail(&b, "w", 2, 2, 3);
    assert_fed_ok(fed_layout_match(&a, &b, NULL));
    add_or_fail(&a, "b", 1, 2, 0);
    check_mismatch(&a, &b, "2 tensors and the other 1");
    add_or_fail(&b, "bias", 1, 2, 0);
    check_mismatch(&a, &b, "tensor 1 is \"b\"");
    fed_layout_free(&b);
    add_or_fail(&b, "w", 2, 2, 4);
    check_mismatch(&a, &b, "dimension 1 of tensor \"w\" is 3");
    fed_layout_free(&b);
    add_or_fail(&b, "w", 1, 2, 0);
    check_mismatch(&a, &b, "\"w\" has 2 dimensions");
    fed_layout_free(&a);
    fed_layout_free(&b);
}

FED_TEST(test_the_first_nonfinite_value_is_found_wherever_it_is) {
    enum { N = 1000 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    float x[N];
    for (size_t i = 0; i < N; i++) {
        x[i] = i % 2 == 0 ? 3.402823466e38f : -1e-45f;
    }
    assert_int_equal(fed_first_nonfinite(x, N), N);
    assert_int_equal(fed_first_nonfinite(x, 0), 0);
    for (size_t i = 0; i < N; i++) {
        float kept = x[i];
        x[i] = bad[i % 3];
        assert_int_equal(fed_first_nonfinite(x, N), i);
        x[i] = kept;
    }
    x[300] = x[700] = NAN;
    assert_int_equal(fed_first_nonfinite(x, N), 300);
}

FED_TEST(test_free_leaves_an_empty_model) {
    fed_model model = {0};
    add_or_fail(&model.layout, "w", 1, 4, 0);
    model.values = malloc(4 * sizeof *model.values);
    fed_model_free(&model);
    assert_null(model.values);
    assert_int_equal(model.layout.size, 0);
    fed_model_free(&model); /* a second call is allowed */
}
