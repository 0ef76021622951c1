/* Model descriptions as a whole: the input, the output, names of models, texts from files. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "arch_case.h"

static void check_shape(fed_shape shape, uint32_t c, uint32_t h, uint32_t w) {
    assert_int_equal(shape.c, c);
    assert_int_equal(shape.h, h);
    assert_int_equal(shape.w, w);
}

FED_TEST(test_shapes_follow_from_layer_to_layer) {
    fed_arch arch = arch_case_parse("input 3x9x12 | conv 4 2x3 | maxpool 3 | relu | dense 7");
    assert_int_equal(arch.layer_count, 4);
    check_shape(arch.layers[0].in, 3, 9, 12);
    check_shape(arch.layers[0].out, 4, 8, 10);
    check_shape(arch.layers[1].out, 4, 2, 3);
    check_shape(arch.layers[2].out, 4, 2, 3);
    assert_int_equal(arch.layers[2].kind, FED_LAYER_RELU);
    check_shape(arch.layers[3].in, 4, 2, 3);
    check_shape(arch.layers[3].out, 7, 1, 1);
    for (uint32_t l = 0; l < 4; l++) {
        assert_int_equal(arch.layers[l].inputs, 1);
        assert_int_equal(arch.layers[l].input[0], l);
    }
    assert_int_equal(arch.layers[3].weight, 2);
    assert_int_equal(arch.classes, 7);
    assert_int_equal(arch.positions, 1);
    assert_int_equal(arch.loss, FED_LOSS_CROSS_ENTROPY);
    assert_int_equal(arch.init, FED_INIT_XAVIER);
    assert_int_equal(arch.words, 0);
    fed_arch_free(&arch);
}

FED_TEST(test_inputs_are_pictures_rows_or_tokens) {
    static const struct {
        const char *text;
        fed_shape shape;
        uint32_t words;
        fed_init init;
    } known[] = {
        {"input 2x3x4 | dense 1", {2, 3, 4}, 0, FED_INIT_XAVIER},
        {"input 0784 | dense 1", {784, 1, 1}, 0, FED_INIT_XAVIER},
        {"input 784x1x1 init he | dense 1", {784, 1, 1}, 0, FED_INIT_HE},
        {"input tokens 35 of 99 | embedding 2 | dense 1", {1, 35, 1}, 99, FED_INIT_XAVIER},
        {"input tokens 1 of 2 init he | embedding 2 | dense 1", {1, 1, 1}, 2, FED_INIT_HE},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        fed_arch arch = arch_case_parse(known[i].text);
        check_shape(arch.input, known[i].shape.c, known[i].shape.h, known[i].shape.w);
        assert_int_equal(arch.words, known[i].words);
        assert_int_equal(arch.init, known[i].init);
        fed_arch_free(&arch);
    }
}

FED_TEST(test_scaffold_adds_a_statistic_for_each_parameter) {
    fed_arch arch = arch_case_parse("input 1x4x4 | conv 2 3 | bn | relu | dense 3 | scaffold");
    const fed_tensor *own = fed_layout_find(&arch.layout, "conv1.weight");
    const fed_tensor *twin = fed_layout_find(&arch.layout, "scaffold.conv1.weight");
    const fed_tensor *mean = fed_layout_find(&arch.layout, "bn1.running_mean");
    float values[106];
    assert_true(arch.scaffold && own != NULL && twin != NULL && mean != NULL);
    assert_int_equal(arch.trained, 51);
    assert_int_equal(arch.layout.size, 2 * 51 + 4);
    assert_int_equal(arch.layout.statistics, 6 + 2);
    assert_int_equal(twin->offset, own->offset + 51);
    assert_int_equal(twin->size, own->size);
    assert_int_equal(mean->offset, 2 * 51);
    fed_arch_init_values(&arch, 1, values);
    for (size_t i = 51; i < 2 * 51; i++) {
        assert_true(values[i] == 0.0f);
    }
    fed_arch_free(&arch);
}

FED_TEST(test_the_output_is_scores_numbers_or_a_sequence_of_them) {
    fed_arch arch = arch_case_parse("input 13 | dense 20 | tanh | dense 2 | mse");
    assert_int_equal(arch.loss, FED_LOSS_SQUARED);
    assert_int_equal(arch.layer_count, 3);
    assert_int_equal(arch.classes, 2);
    fed_arch_free(&arch);
    arch = arch_case_parse("input 3x6x1 | dense 5 each | scaffold | mse");
    assert_true(arch.scaffold);
    assert_int_equal(arch.classes, 5);
    assert_int_equal(arch.positions, 6);
    fed_arch_free(&arch);
    arch = arch_case_parse("input 3x8x8 | conv 10 3 | avgpool"); /* no dense layer at all */
    assert_int_equal(arch.classes, 10);
    fed_arch_free(&arch);
}

FED_TEST(test_a_wrong_input_or_output_is_refused) {
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"dense 10 | input 5", "column 1, \"dense\": expected \"input\""},
        {"input", "ends at column 6: expected the shape of a sample"},
        {"input x", "column 7, \"x\""},
        {"input 28x28 | dense 10", "column 7, \"28x28\""},
        {"input 1x2x3x4 | dense 10", "column 7, \"1x2x3x4\""},
        {"input 0 | dense 10", "column 7, \"0\""},
        {"input 3x0x2 | dense 10", "column 7, \"3x0x2\""},
        {"input 1x28x | dense 10", "column 7, \"1x28x\""},
        {"input -5 | dense 10", "column 7, \"-5\""},
        {"input 5.5 | dense 10", "column 7, \"5.5\""},
        {"input tokens 0 of 5", "column 14, \"0\": expected how many tokens"},
        {"input tokens 5 of 16777217", "expected at most 2^24 words"},
        {"input tokens 5 9", "column 16, \"9\": expected \"of\""},
        {"input tokens 5 of", "ends at column 18: expected how many words"},
        {"input 5 init | dense 10", "column 14, \"|\": expected \"he\""},
        {"input 5 init xavier | dense 10", "column 14, \"xavier\": expected \"he\""},
        {"input 5", "ends at column 8: expected \"|\" and the first layer"},
        {"input 5 dense 10", "column 9, \"dense\": expected \"|\""},
        {"input 5 | pool 2", "column 11, \"pool\": expected a layer"},
        {"input 5 |", "ends at column 10: expected a layer"},
        {"input 5 || dense 1", "column 10, \"|\": expected a layer"},
        {"input 5 | dense 1; dense 2", "column 18, \";\": expected \"|\" between layers"},
        {"input 5 | relu", "ends at column 15: expected a layer with weights"},
        {"input 5 | from in", "ends at column 18: expected a layer with weights"},
        {"input 5 | dense 3 | from in", "expected a layer with weights"},
        {"input 5 | mse", "column 11, \"mse\": expected a layer"},
        {"input 5 | dense 3 | mse | relu", "column 25, \"|\": expected the end after \"mse\""},
        {"input 5 | dense 3 | scaffold | relu",
         "\"relu\": expected \"mse\", or the end after \"scaffold\""},
        {"input 3x8x8 | conv 4 3", "ends at column 23: expected a last layer that gives scores, as "
                                   "in \"dense 10\", not 4x6x6 values"},
        {"input 5 | a: dense 3 | from in | dense 2",
         "column 14, \"dense\": expected a later layer that reads this layer's output"},
        {"input 5 | a: dense 3 | b: relu | from a",
         "column 27, \"relu\": expected a later layer that reads this layer's output"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        arch_case_refused(bad[i].text, bad[i].words);
    }
}

FED_TEST(test_an_unknown_name_is_answered_with_those_that_exist) {
    arch_case_refused("resnet", "no model is called \"resnet\"; there are: lr, mlp, ");
    arch_case_refused("", "no model is called \"\"");
    fed_arch arch;
    fed_error err = {0};
    assert_fed_status(fed_arch_parse("x", &arch, &err), FED_EFORMAT);
    for (size_t k = 0; fed_arch_name(k) != NULL; k++) {
        assert_fed_says(err, fed_arch_name(k));
    }
    assert_fed_says(err, "or describe one, as in \"input 784 | dense 10\"");
}

FED_TEST(test_1024_layers_are_the_most) {
    arch_case_refused("input 4x32x1 | lstm 4 layers 1025 | dense 2", "at most 1,024 layers");
    arch_case_refused("input 4x32x1 | lstm 4 layers 4294967295 dropout 0.1",
                      "at most 1,024 layers");
    arch_case_refused("let r = relu | tanh; input 9 | 512 r | dense 2", "at most 1,024 layers");
    fed_arch arch = arch_case_parse("let r = relu; input 9 | 1023 r | dense 2");
    assert_int_equal(arch.layer_count, FED_ARCH_LAYERS);
    fed_arch_free(&arch);
}

static void put_and_load(const char *text, fed_status wanted, fed_arch *arch, fed_error *err) {
    char dir[200], path[300];
    fed_test_tmpdir(dir, sizeof dir);
    fed_test_put(dir, "my.net", text, strlen(text));
    snprintf(path, sizeof path, "@%s/my.net", dir);
    assert_fed_status(fed_arch_load(path, arch, err), wanted);
}

FED_TEST(test_a_text_is_read_from_a_file) {
    fed_arch arch;
    fed_error err = {0};
    put_and_load("# mine\ninput 4x4x4\n  | conv 8 3\n  | dense 3\n", FED_OK, &arch, &err);
    assert_string_equal(arch.text, "input 4x4x4 | conv 8 3 | dense 3");
    fed_arch_free(&arch);
    assert_fed_ok_err(fed_arch_load("lr", &arch, &err));
    fed_arch_free(&arch);
}

FED_TEST(test_an_error_in_a_file_names_the_file) {
    fed_arch arch;
    fed_error err = {0};
    put_and_load("input 4x4x4\n  | dense x\n", FED_EFORMAT, &arch, &err);
    assert_fed_says(err, "/my.net: model: line 2, column 11, \"x\"");
    assert_fed_status(fed_arch_load("@/nowhere/my.net", &arch, &err), FED_ENOTFOUND);
    assert_fed_says(err, "/nowhere/my.net");
    assert_fed_status(fed_arch_parse("@/nowhere/my.net", &arch, &err), FED_EFORMAT);
}
