/* Which tensors of a model a list of private layers names, what is refused, and how values are
 * divided and joined again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "arch_case.h"
#include "fed/private_layers.h"

#define CNN                                                                                        \
    "input 1x8x8 | conv 2 3 | bn | relu | conv 3 3 | bn | relu | fc: dense 5 | relu | out: dense " \
    "4"

/* The names of a layout's tensors, each with a blank behind it. */
static void names_of(const fed_layout *layout, char names[1024]) {
    names[0] = '\0';
    for (size_t k = 0; k < layout->count; k++) {
        strcat(names, layout->tensors[k].name);
        strcat(names, " ");
    }
}

static void shares(const char *text, const char *layers, const char *expected) {
    fed_error err = {0};
    char names[1024];
    fed_arch arch = arch_case_parse(text);
    assert_fed_ok_err(fed_arch_share(&arch, layers, &err));
    names_of(&arch.layout, names);
    assert_string_equal(names, expected);
    fed_arch_free(&arch);
}

static void refuses(const char *text, const char *layers, const char *words) {
    fed_error err = {0};
    fed_arch arch = arch_case_parse(text);
    const size_t before = arch.layout.size;
    assert_int_equal(fed_arch_share(&arch, layers, &err), FED_EINVAL);
    if (strstr(err.text, words) == NULL) {
        fail_msg("\"%s\" does not have \"%s\"", err.text, words);
    }
    assert_int_equal(arch.layout.size, before);
    fed_arch_free(&arch);
}

FED_TEST(the_head_is_the_last_layer_with_parameters) {
    shares("input 4 | dense 3 | relu | dense 2", "head", "dense1.weight dense1.bias ");
    shares("input 4 | dense 3 | relu | dense 2 | mse", "head", "dense1.weight dense1.bias ");
    shares("tensors a.w 2 | a.b 1 | b.w 2 | b.b 1 | statistics a.running_mean 1", "head",
           "a.w a.b a.running_mean ");
}

FED_TEST(bn_is_each_layer_with_running_statistics) {
    shares(
        CNN, "bn",
        "conv1.weight conv1.bias conv2.weight conv2.bias fc.weight fc.bias out.weight out.bias ");
    shares("tensors a.w 2 | n.weight 1 | n.bias 1 | statistics n.running_mean 1 | statistics "
           "n.running_var 1",
           "bn", "a.w ");
}

FED_TEST(numbers_name_layers_with_their_running_statistics) {
    shares(CNN, "1,4-6",
           "bn1.weight bn1.bias conv2.weight conv2.bias bn1.running_mean "
           "bn1.running_var ");
    shares(CNN, "6,1-2,4-5,head", "conv2.weight conv2.bias ");
}

FED_TEST(an_empty_list_leaves_the_model_as_it_is) {
    shares("input 4 | dense 3", "", "dense1.weight dense1.bias ");
}

FED_TEST(statistics_that_travel_are_counted) {
    fed_error err = {0};
    fed_arch arch = arch_case_parse(CNN);
    assert_fed_ok_err(fed_arch_share(&arch, "2,head", &err));
    assert_int_equal(arch.layout.statistics, 2);
    /* conv1, conv2, bn2 and fc: 20 + 57 + 6 + 245; behind them bn2's statistics */
    assert_int_equal(arch.trained, 328);
    assert_int_equal(arch.layout.size, 334);
    assert_string_equal(arch.layout.tensors[arch.layout.count - 1].name, "bn2.running_var");
    fed_arch_free(&arch);
}

FED_TEST(lists_that_can_not_be_read_are_refused) {
    static const char *const bad[] = {
        "heads", "1,", ",1",  "1,,2", "1 ", "4-",    "-4",
        "6-4",   "0",  "1-0", "a",    "Bn", "1-2-3", "99999999999999999999"};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        refuses(CNN, bad[k], "must be head, bn, a layer's number");
    }
}

FED_TEST(what_does_not_fit_the_model_is_refused) {
    refuses(CNN, "7", "no layer 7: this model has 6 layers");
    refuses(CNN, "5-7", "no layer 7");
    refuses(CNN, "1-6", "no trained layer is left to travel");
    refuses("vector 5", "head", "no trained layer is left to travel");
    refuses("tensors a.w 2 | statistics s.running_mean 1", "1", "no trained layer is left");
    refuses("input 4 | dense 3 | dense 2", "bn", "this model has none");
    refuses("input 4 | dense 3 | dense 2 | scaffold", "head", "control variates");
    refuses("input tokens 4 of 9 | e: embedding 3 | lstm 3 | dense 9 each tied e", "head",
            "those of an embedding");
}

/* Parameters and statistics of private layers lie among the others, so the parts are no ranges. */
FED_TEST(values_are_divided_and_joined_to_the_same_bits) {
    fed_error err = {0};
    fed_private_layers split;
    fed_arch arch = arch_case_parse(CNN);
    const size_t n = arch.layout.size;
    float *all = malloc(n * sizeof *all), *joined = calloc(n, sizeof *joined);
    assert_fed_ok_err(fed_private_layers_split(&arch, "bn,4", &split, &err));
    float *shared = malloc(split.shared.size * sizeof *shared);
    float *own = malloc(split.own * sizeof *own);
    for (size_t i = 0; i < n; i++) {
        all[i] = (float)i;
    }
    fed_private_layers_take(&split, &arch.layout, all, shared, own);
    for (size_t k = 0; k < split.shared.count; k++) {
        const fed_tensor *t = &split.shared.tensors[k];
        const fed_tensor *was = fed_layout_find(&arch.layout, t->name);
        assert_memory_equal(shared + t->offset, all + was->offset, t->size * sizeof *all);
    }
    fed_private_layers_join(&split, &arch.layout, shared, own, joined);
    assert_memory_equal(joined, all, n * sizeof *all);
    fed_private_layers_take(&split, &arch.layout, all, all, NULL); /* in place */
    assert_memory_equal(all, shared, split.shared.size * sizeof *all);
    fed_private_layers_free(&split);
    fed_arch_free(&arch);
    free(all);
    free(joined);
    free(shared);
    free(own);
}
