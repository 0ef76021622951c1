/* Blocks and names in a model's text: which tensors they give, and the limits of their number. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "arch_case.h"

static void check_tensors(const char *text, const char *wanted) {
    fed_arch arch = arch_case_parse(text);
    char names[1000] = "";
    for (size_t i = 0; i < arch.layout.count; i++) {
        strcat(strcat(names, i > 0 ? " " : ""), arch.layout.tensors[i].name);
    }
    assert_string_equal(names, wanted);
    fed_arch_free(&arch);
}

FED_TEST(test_layers_are_numbered_within_their_kind) {
    check_tensors(
        "input 3x8x8 | conv 2 1 nobias | dense 9 each nobias | conv 3 1 nobias | c: conv 4 1 nobias"
        " | conv 5 1 nobias | dense 2 nobias",
        "conv1.weight dense1.weight conv2.weight c.weight conv4.weight dense2.weight");
}

FED_TEST(test_a_block_lies_below_its_name) {
    check_tensors("let b(c) = conv c 1 nobias | down.0: conv c 1 nobias; "
                  "input 3x8x8 | x.y: b(4) | dense 2 nobias",
                  "x.y.conv1.weight x.y.down.0.weight dense1.weight");
}

FED_TEST(test_copies_are_numbered_from_0_or_as_is_said) {
    check_tensors("let b(c) = conv c 1 nobias; input 3x8x8 | x: 2 b(4) | y.0: b(5) | y: 1..2 b(5) "
                  "| z: 4294967295..4294967295 b(6) | dense 2 nobias",
                  "x.0.conv1.weight x.1.conv1.weight y.0.conv1.weight y.1.conv1.weight "
                  "y.2.conv1.weight z.4294967295.conv1.weight dense1.weight");
}

FED_TEST(test_a_block_without_a_name_is_numbered_like_a_layer) {
    check_tensors("let b(c) = conv c 1 nobias; let d = b(7); input 3x8x8 | b(4) | 2 b(5) | d "
                  "| conv 1 1 nobias | x: b(6) | b(7) | dense 2 nobias",
                  "b1.conv1.weight b2.0.conv1.weight b2.1.conv1.weight d1.b1.conv1.weight "
                  "conv1.weight x.conv1.weight b4.conv1.weight dense1.weight");
}

FED_TEST(test_parameters_stand_for_any_number) {
    fed_arch arch = arch_case_parse("let inner(out,k,share) = conv out k pad 1 | dropout share; "
                                    "let outer(n,c,k,p) = n inner(c,k,p) | n inner(8,3x5,p); "
                                    "input 3x9x9 | outer(2,6,5,0.25) | dense 2");
    assert_int_equal(arch.layer_count, 9);
    assert_int_equal(arch.layers[2].out.c, 6);
    assert_int_equal(arch.layers[2].kh, 5);
    assert_true(arch.layers[3].p == 0.25f);
    assert_int_equal(arch.layers[6].kh, 3);
    assert_int_equal(arch.layers[6].kw, 5);
    assert_string_equal(arch.layout.tensors[2].name, "outer1.inner1.1.conv1.weight");
    assert_string_equal(arch.layout.tensors[6].name, "outer1.inner2.1.conv1.weight");
    fed_arch_free(&arch);
}

FED_TEST(test_in_is_what_comes_into_the_innermost_block) {
    fed_arch arch = arch_case_parse("let a = relu | add in; let b = tanh | a | add in; "
                                    "input 9 | dense 9 | b | add in | dense 2");
    /* Layers 1 to 3 are dense, tanh and relu. Layer 4 adds layers 3 and 2, layer 5 adds layers 4
     * and 1, and layer 6 adds layer 5 and the input (0). */
    static const uint32_t others[] = {2, 1, 0};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(arch.layers[3 + i].inputs, 2);
        assert_int_equal(arch.layers[3 + i].input[0], 3 + i);
        assert_int_equal(arch.layers[3 + i].input[1], others[i]);
    }
    fed_arch_free(&arch);
}

FED_TEST(test_a_name_is_the_output_and_reaches_into_blocks) {
    fed_arch arch = arch_case_parse("let a = first: relu | tanh; input 9 | x: 2 a | relu "
                                    "| concat x x.0 x.0.first | dense 2");
    static const uint32_t inputs[] = {4, 2, 1, 5};
    assert_memory_equal(arch.layers[5].input, inputs, sizeof inputs);
    fed_arch_free(&arch);
}

FED_TEST(test_names_inside_a_block_are_its_own) {
    arch_case_refused(
        "let a = relu | add y; input 9 | y: relu | x: a | dense 2",
        "column 20, \"y\": expected the name of a layer before this one, or \"in\" (in x)");
    arch_case_refused("let a = y: relu; input 9 | x: a | add y | dense 2",
                      "column 39, \"y\": expected the name of a layer before");
    fed_arch arch =
        arch_case_parse("let a = y: relu | add y; input 9 | y: tanh | x: 2 a | dense 2");
    assert_int_equal(arch.layers[2].input[1], 2);
    assert_int_equal(arch.layers[4].input[1], 4);
    fed_arch_free(&arch);
}

static const struct {
    const char *text, *words;
} bad_blocks[] = {
    {"input 9 | a: relu | a: relu | dense 2", "column 21, \"a\": expected another name"},
    {"input 9 | relu2: relu | relu | dense 2", "column 25, \"relu\": expected another name"},
    {"input 9 | in: relu | dense 2", "column 11, \"in\": expected a name of letters"},
    {"input 9 | a-b: relu | dense 2", "column 11, \"a-b\": expected a name of letters"},
    {"input 9 | .a: relu | dense 2", "column 11, \".a\": expected a name of letters"},
    {"input 9 | a.: relu | dense 2", "column 11, \"a.\": expected a name of letters"},
    {"input 9 | a..b: relu | dense 2", "column 11, \"a..b\": expected a name of letters"},
    {"input 9 | : relu", "column 11, \":\": expected a layer"},
    {"input 9 | a: | dense 2", "column 14, \"|\": expected a layer"},
    {"input 9 | a: from in | dense 2", "column 14, \"from\": expected a layer"},
    {"input 9 | a: b: relu | dense 2", "column 14, \"b\": expected a layer"},
    {"input 9 | relu | from in relu1 | dense 2", "column 26, \"relu1\": expected \"|\" between"},
    {"input 9 | from x | dense 2", "column 16, \"x\": expected the name of a layer before"},
    {"input 9 | "
     "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg: relu | dense 2",
     "column 11, \"aaaaaaaaaabbbbbbbbbbccccccccccdd\": expected a shorter name"},
    {"input 9 | aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffff: dense 2",
     "ffffffff.weight has more than 63 characters"},
    {"let a = relu; let a = tanh; input 9 | a | dense 2", "column 19, \"a\": expected the name of"},
    {"let conv = relu; input 9 | dense 2", "column 5, \"conv\": expected the name of a block"},
    {"let mse = relu; input 9 | dense 2", "column 5, \"mse\": expected the name of a block"},
    {"let 3a = relu; input 9 | dense 2", "column 5, \"3a\": expected the name of a block"},
    {"let ", "ends at column 5: expected the name of a block"},
    {"let a relu; input 9 | dense 2", "column 7, \"relu\": expected \"=\" and layers"},
    {"let a = relu", "ends at column 13: expected \";\" after the block"},
    {"let a = ; input 9 | a | dense 2",
     "column 9, \";\": expected a layer (conv, dense, relu, ...) "
     "or a block's name (in a1)"},
    {"let a = relu | ; input 9 | a | dense 2", "column 16, \";\": expected a layer"},
    {"let a(c,c) = conv c 3; input 9", "column 9, \"c\": expected another name"},
    {"let a(relu) = relu; input 9", "column 7, \"relu\": expected the name of a parameter"},
    {"let a() = relu; input 9", "column 7, \")\": expected the name of a parameter"},
    {"let a(b c) = relu; input 9", "column 9, \"c\": expected \",\" or \")\""},
    {"let a(b,c,d,e,f,g,h,i,j) = relu; input 9", "\"j\": expected \")\": a block has at most 8"},
    {"let a = relu; input 9 | dense 2", "column 5, \"a\": expected a use of this block"},
    {"let a = relu; input 9 | a() | dense 2", "column 26, \"(\": expected \"|\" between layers"},
    {"let a(c) = dense c; input 9 | a", "ends at column 32: expected 1 number in brackets for "},
    {"let a(c) = dense c; input 9 | a(1,2)", "column 34, \",\": expected 1 number in brackets"},
    {"let a(c) = dense c; input 9 | a(x)", "column 33, \"x\": expected a number"},
    {"let a(c) = dense c; input 9 | a(c)", "column 33, \"c\": expected a number"},
    {"let a(c) = dense c; input 9 | x: a(0)",
     "column 36, \"0\": expected the number of outputs of dense, as in \"dense 500\" (in x)"},
    {"input 9 | a | dense 2", "column 11, \"a\": expected a layer"},
    {"let a = a; input 9 | a | dense 2", "column 9, \"a\": expected a layer"},
    {"let a = b; let b = relu; input 9 | a | b | dense 2", "column 9, \"b\": expected a layer"},
    {"let a = relu; input 9 | 0 a | dense 2", "column 25, \"0\": expected how often"},
    {"let a = relu; input 9 | 2..1 a | dense 2", "column 25, \"2..1\": expected how often"},
    {"let a = relu; input 9 | 1.5 a | dense 2", "column 25, \"1.5\": expected how often"},
    {"let a = relu; input 9 | 3 relu | a", "column 27, \"relu\": expected the name of a block"},
    {"let a = relu; input 9 | 4294967296 a", "column 25, \"4294967296\": expected how often"},
    {"let a = relu | mse; input 9 | a | dense 2", "column 16, \"mse\": expected a layer"},
};

FED_TEST(test_wrong_blocks_and_names_are_refused) {
    for (size_t i = 0; i < sizeof bad_blocks / sizeof bad_blocks[0]; i++) {
        arch_case_refused(bad_blocks[i].text, bad_blocks[i].words);
    }
}

FED_TEST(test_what_blocks_expand_to_is_bounded) {
    arch_case_refused("let a = from in; input 9 | 4294967295 a | dense 2", "at most 4,096 layers");
    arch_case_refused(
        "let a = from in; let b = 99 a; let c = 99 b; let d = 99 c; input 9 | d | dense 2",
        "at most 4,096 layers, branches and uses of blocks (in ");
    arch_case_refused("let a = from in; input 9 | 0..4294967295 a | dense 2",
                      "at most 4,096 layers");
}

FED_TEST(test_32_blocks_are_the_most_and_may_lie_in_each_other) {
    char text[2000] = "let b0 = relu; ", use[60];
    for (int i = 1; i < 32; i++) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, "let b%d = b%d; ", i, i - 1);
    }
    size_t len = strlen(text);
    snprintf(use, sizeof use, "input 9 | b31 | dense 2");
    strcat(text, use);
    /* With its prefix, the name of an inner block would have more than 63 characters. */
    arch_case_refused(text, "expected a shorter name");
    text[len] = '\0';
    strcat(text, "let c = relu; input 9 | c | dense 2");
    arch_case_refused(text, "\"c\": expected \"input\": a model has at most 32 blocks");
}

FED_TEST(test_a_thousand_layers_in_blocks_of_blocks) {
    fed_arch arch =
        arch_case_parse("let a(c) = conv c 1 | bn; let b = 16 a(2); input 2x2x2 | 31 b | dense 2");
    assert_int_equal(arch.layer_count, 993);
    assert_int_equal(arch.layout.count, 31 * 16 * 6 + 2);
    assert_string_equal(arch.layout.tensors[arch.layout.count - 1].name,
                        "b1.30.a1.15.bn1.running_var");
    fed_arch_free(&arch);
}
