/* The hash table of a layout's names. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <stdio.h>

#include "common/arch/arch_names.h"

enum { MANY = 20000 };

static const uint32_t single[] = {1};

static void name_of(size_t k, char name[32]) {
    snprintf(name, 32, "layer.%zu.weight", k);
}

FED_TEST(each_name_is_found_and_no_other) {
    arch_names names;
    fed_layout layout;
    char name[32];
    fed_layout_init(&layout);
    assert_fed_ok(arch_names_open(&names, MANY));
    for (size_t k = 0; k < MANY; k++) {
        name_of(k, name);
        assert_null(arch_names_find(&names, &layout, name));
        assert_fed_ok(arch_names_add(&names, &layout, name, 1, single));
    }
    for (size_t k = 0; k < MANY; k++) {
        name_of(k, name);
        assert_true(arch_names_find(&names, &layout, name) == &layout.tensors[k]);
    }
    name_of(MANY, name);
    assert_null(arch_names_find(&names, &layout, name));
    arch_names_free(&names);
    assert_null(arch_names_find(&names, &layout, "layer.0.weight"));
    assert_fed_ok(arch_names_of(&layout, &names));
    assert_true(arch_names_find(&names, &layout, "layer.7.weight") == &layout.tensors[7]);
    arch_names_free(&names);
    fed_layout_free(&layout);
}

FED_TEST(a_refused_tensor_leaves_the_table_as_it_was) {
    arch_names names;
    fed_layout layout;
    fed_layout_init(&layout);
    assert_fed_ok(arch_names_open(&names, 2));
    assert_fed_ok(arch_names_add(&names, &layout, "a", 1, single));
    assert_int_equal(arch_names_add(&names, &layout, "a", 1, single), FED_EINVAL);
    assert_int_equal(arch_names_add(&names, &layout, "b", 1, (uint32_t[]){0}), FED_ERANGE);
    assert_null(arch_names_find(&names, &layout, "b"));
    assert_int_equal(layout.count, 1);
    assert_fed_ok(arch_names_add(&names, &layout, "b", 1, single));
    assert_true(arch_names_find(&names, &layout, "b") == &layout.tensors[1]);
    arch_names_free(&names);
    fed_layout_free(&layout);
}
