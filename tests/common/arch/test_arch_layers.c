/* The layers of a model: their shapes, numbers and tensors, and what each refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "arch_case.h"

FED_TEST(test_windows_give_as_many_places_as_fit) {
    static const struct {
        const char *layer, *shape; /* shape: the output for an input of 3x9x12 */
    } known[] = {
        {"conv 4 2x3", "4x8x10"},
        {"conv 4 3", "4x7x10"},
        {"conv 4 3 pad 1", "4x9x12"},
        {"conv 4 3 stride 2 pad 1", "4x5x6"},
        {"conv 4 3 pad 1 stride 5", "4x2x3"},
        {"conv 6 1 groups 3 nobias", "6x9x12"},
        {"conv 4 9x12", "4x1x1"},
        {"conv 1 10 pad 1 stride 100", "1x1x1"},
        {"maxpool 2", "3x4x6"}, /* a last row that does not fill a window is dropped */
        {"maxpool 3 stride 2 pad 1", "3x5x6"},
        {"maxpool 3 stride 1 pad 1", "3x9x12"},
        {"maxpool 2x3 stride 2", "3x4x5"},
        {"maxpool 1 stride 2", "3x5x6"},
        {"avgpool", "3x1x1"},
        {"avgpool 3", "3x3x4"},
        {"avgpool 3 pad 1", "3x3x4"},
        {"avgpool 9x12 stride 1", "3x1x1"},
        {"widen 8", "8x9x12"},
        {"widen 3", "3x9x12"},
        {"dense 5 each", "5x9x12"},
        {"dense 5", "5x1x1"},
        {"relu", "3x9x12"},
        {"tanh", "3x9x12"},
        {"sigmoid", "3x9x12"},
        {"dropout 0.5", "3x9x12"},
        {"dropout 0", "3x9x12"},
        {"bn", "3x9x12"},
        {"lrn 5 alpha 1e-3 beta 0.5 k 2", "3x9x12"},
        {"add in", "3x9x12"},
        {"concat in", "6x9x12"},
        {"concat in in in", "12x9x12"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char text[100];
        snprintf(text, sizeof text, "input 3x9x12 | %s | dense 2", known[i].layer);
        arch_case_gives(text, 0, known[i].shape);
    }
}

FED_TEST(test_sequences_go_through_embedding_and_lstm) {
    arch_case_gives("input tokens 7 of 50 | embedding 9 | dense 3", 0, "9x7x1");
    arch_case_gives("input tokens 7 of 50 | embedding 9 | lstm 4 | dense 3", 1, "4x7x1");
    arch_case_gives("input 5x6x1 | lstm 4 | dense 3 each", 1, "3x6x1");
    arch_case_gives("input 5 | lstm 4 | dense 3", 0, "4x1x1"); /* a sequence of one position */
}

FED_TEST(test_numbers_have_their_presets) {
    fed_arch arch =
        arch_case_parse("input 4x9x8 | conv 4 3 | maxpool 2 | lrn 3 | avgpool | dense 2");
    const fed_layer *l = arch.layers;
    assert_int_equal(l[0].stride, 1);
    assert_int_equal(l[0].pad, 0);
    assert_int_equal(l[0].groups, 1);
    assert_true(l[0].has_bias);
    assert_int_equal(l[1].stride, 2);
    assert_true(l[2].alpha == 1e-4f && l[2].beta == 0.75f && l[2].k == 1.0f && l[2].span == 3);
    assert_int_equal(l[3].kh, 3); /* without a size, the window is the whole picture */
    assert_int_equal(l[3].kw, 3);
    assert_int_equal(l[3].stride, 1);
    assert_false(l[4].each);
    assert_false(l[4].tied);
    fed_arch_free(&arch);
}

FED_TEST(test_numbers_are_taken_in_any_order) {
    fed_arch arch = arch_case_parse(
        "input 4x9x9 | conv 6 5x3 nobias groups 2 pad 1 stride 3 | lrn 7 k 2 beta .5 alpha 3e-2 "
        "| dropout 0.25 | dense 2 nobias");
    const fed_layer *l = arch.layers;
    assert_int_equal(l[0].kh, 5);
    assert_int_equal(l[0].kw, 3);
    assert_int_equal(l[0].stride, 3);
    assert_int_equal(l[0].pad, 1);
    assert_int_equal(l[0].groups, 2);
    assert_false(l[0].has_bias);
    assert_true(l[1].alpha == 3e-2f && l[1].beta == 0.5f && l[1].k == 2.0f);
    assert_true(l[2].p == 0.25f);
    assert_false(l[3].has_bias);
    assert_int_equal(arch.layout.count, 2);
    fed_arch_free(&arch);
}

static void check_tensor(const fed_arch *arch, size_t i, const char *name, uint32_t rank,
                         const uint32_t *dims) {
    assert_in_range(i, 0, arch->layout.count - 1);
    const fed_tensor *tensor = &arch->layout.tensors[i];
    assert_string_equal(tensor->name, name);
    assert_int_equal(tensor->rank, rank);
    assert_memory_equal(tensor->dims, dims, rank * sizeof *dims);
}

FED_TEST(test_lenet_has_pytorchs_tensors) {
    fed_arch arch = arch_case_parse("lenet5-caffe");
    assert_int_equal(arch.layout.count, 8);
    check_tensor(&arch, 0, "conv1.weight", 4, (uint32_t[]){20, 1, 5, 5});
    check_tensor(&arch, 1, "conv1.bias", 1, (uint32_t[]){20});
    check_tensor(&arch, 2, "conv2.weight", 4, (uint32_t[]){50, 20, 5, 5});
    check_tensor(&arch, 3, "conv2.bias", 1, (uint32_t[]){50});
    check_tensor(&arch, 4, "dense1.weight", 2, (uint32_t[]){500, 800});
    check_tensor(&arch, 5, "dense1.bias", 1, (uint32_t[]){500});
    check_tensor(&arch, 6, "dense2.weight", 2, (uint32_t[]){10, 500});
    check_tensor(&arch, 7, "dense2.bias", 1, (uint32_t[]){10});
    assert_int_equal(arch.layers[6].weight, 6);
    assert_int_equal(arch.layers[6].bias, 7);
    assert_int_equal(arch.trained, arch.layout.size);
    fed_arch_free(&arch);
}

FED_TEST(test_running_statistics_lie_behind_all_that_is_trained) {
    fed_arch arch = arch_case_parse(
        "input 4x5x5 | conv 6 3x2 groups 2 nobias | bn | head: bn | relu | dense 2");
    assert_int_equal(arch.layout.count, 11);
    check_tensor(&arch, 0, "conv1.weight", 4, (uint32_t[]){6, 2, 3, 2});
    check_tensor(&arch, 1, "bn1.weight", 1, (uint32_t[]){6});
    check_tensor(&arch, 2, "bn1.bias", 1, (uint32_t[]){6});
    check_tensor(&arch, 3, "head.weight", 1, (uint32_t[]){6});
    check_tensor(&arch, 5, "dense1.weight", 2, (uint32_t[]){2, 72});
    check_tensor(&arch, 7, "bn1.running_mean", 1, (uint32_t[]){6});
    check_tensor(&arch, 8, "bn1.running_var", 1, (uint32_t[]){6});
    check_tensor(&arch, 9, "head.running_mean", 1, (uint32_t[]){6});
    assert_int_equal(arch.layers[1].weight, 1);
    assert_int_equal(arch.layers[1].bias, 2);
    assert_int_equal(arch.layers[1].state, 7);
    assert_int_equal(arch.layers[2].state, 9);
    assert_int_equal(arch.trained, arch.layout.size - 24);
    assert_int_equal(arch.trained, arch.layout.tensors[7].offset);
    fed_arch_free(&arch);
}

FED_TEST(test_an_lstm_of_two_layers_is_two_with_dropout_between) {
    fed_arch arch = arch_case_parse("input tokens 7 of 50 | encoder: embedding 9 "
                                    "| rnn: lstm 4 layers 2 dropout 0.5 | decoder: dense 50 each");
    assert_int_equal(arch.layer_count, 5);
    static const fed_layer_kind kinds[] = {FED_LAYER_EMBEDDING, FED_LAYER_LSTM, FED_LAYER_DROPOUT,
                                           FED_LAYER_LSTM, FED_LAYER_DENSE};
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(arch.layers[i].kind, kinds[i]);
        assert_int_equal(arch.layers[i].input[0], i);
    }
    check_tensor(&arch, 0, "encoder.weight", 2, (uint32_t[]){50, 9});
    check_tensor(&arch, 1, "rnn.weight_ih_l0", 2, (uint32_t[]){16, 9});
    check_tensor(&arch, 2, "rnn.weight_hh_l0", 2, (uint32_t[]){16, 4});
    check_tensor(&arch, 3, "rnn.bias_ih_l0", 1, (uint32_t[]){16});
    check_tensor(&arch, 4, "rnn.bias_hh_l0", 1, (uint32_t[]){16});
    check_tensor(&arch, 5, "rnn.weight_ih_l1", 2, (uint32_t[]){16, 4});
    check_tensor(&arch, 9, "decoder.weight", 2, (uint32_t[]){50, 4});
    assert_int_equal(arch.layers[1].weight, 1);
    assert_int_equal(arch.layers[3].weight, 5);
    assert_int_equal(arch.words, 50);
    assert_int_equal(arch.classes, 50);
    assert_int_equal(arch.positions, 7);
    fed_arch_free(&arch);
}

FED_TEST(test_tied_weights_are_the_embeddings) {
    fed_arch arch = arch_case_parse("input tokens 7 of 50 | encoder: embedding 9 | lstm 9 "
                                    "| decoder: dense 50 each tied encoder");
    const fed_layer *decoder = &arch.layers[2];
    assert_true(decoder->tied && decoder->each && decoder->has_bias);
    assert_int_equal(decoder->weight, arch.layers[0].weight);
    check_tensor(&arch, decoder->bias, "decoder.bias", 1, (uint32_t[]){50});
    assert_int_equal(arch.layout.count, 6);
    char name[64];
    fed_arch_layer_name(&arch, 2, name, sizeof name);
    assert_string_equal(name, "decoder");
    fed_arch_free(&arch);
}

FED_TEST(test_layers_read_the_values_they_name) {
    fed_arch arch =
        arch_case_parse("input 3x8x8 | a: conv 2 1 | b: relu | from a | c: tanh | from in "
                        "| d: widen 5 | concat b c a | add concat1 | from d | widen 11 "
                        "| add add1 | dense 2");
    assert_int_equal(arch.layer_count, 9);
    const fed_layer *l = arch.layers;
    assert_int_equal(l[2].input[0], 1);
    assert_int_equal(l[3].input[0], 0);
    assert_int_equal(l[4].inputs, 4);
    static const uint32_t inputs[] = {2, 3, 1, 4};
    assert_memory_equal(l[4].input, inputs, sizeof inputs);
    assert_int_equal(l[4].in.c, 2);
    assert_int_equal(l[4].out.c, 11);
    assert_int_equal(l[5].inputs, 2);
    assert_int_equal(l[5].input[0], 5);
    assert_int_equal(l[5].input[1], 5);
    fed_arch_free(&arch);
}

static const struct {
    const char *text, *words;
} bad_layers[] = {
    {"input 5 | dense", "ends at column 16: expected the number of outputs of dense"},
    {"input 5 | dense 3x3", "column 17, \"3x3\""},
    {"input 5 | dense 0", "column 17, \"0\""},
    {"input 5 | dense 4294967296", "column 17, \"4294967296\""},
    {"input 5 | dense 99999999999999999999", "column 17"},
    {"input 5 | dense 3 twice", "column 19, \"twice\": expected \"|\", each, tied, nobias"},
    {"input 5 | dense 3 each each", "column 24, \"each\": expected \"|\", tied, nobias"},
    {"input 5 | a: relu | dense 5 tied a", "column 21, \"dense\": expected \"each\" together with"},
    {"input 5 | a: relu | dense 5 each tied a", "expected the name of an embedding after \"tied\""},
    {"input 5 | dense 5 each tied in", "expected the name of an embedding after \"tied\""},
    {"input 5 | dense 5 each tied b", "column 29, \"b\": expected the name of a layer before"},
    {"input tokens 4 of 6 | e: embedding 3 | dense 5 each tied e",
     "expected 6 outputs of 3 values each, as the embedding has; not 5 outputs of 3 values"},
    {"input tokens 4 of 6 | e: embedding 3 | lstm 2 | dense 6 each tied e",
     "expected 6 outputs of 3 values each, as the embedding has; not 6 outputs of 2 values"},
    {"input 1x9x9 | conv 3 | dense 3", "column 22, \"|\": expected the kernel"},
    {"input 1x9x9 | conv 3 5x | dense 3", "column 22, \"5x\": expected the kernel"},
    {"input 1x9x9 | conv 3 0x5 | dense 3", "column 22, \"0x5\": expected the kernel"},
    {"input 1x9x9 | conv 3 5x0 | dense 3", "column 22, \"5x0\": expected the kernel"},
    {"input 1x9x9 | conv 3 5x5x5 | dense 3", "column 22, \"5x5x5\""},
    {"input 1x9x9 | conv 3 10x3 | dense 3", "column 22, \"10x3\": expected a window no larger "
                                            "than its input, 9x9 with a pad of 0"},
    {"input 1x9x9 | conv 3 3x10 | dense 3", "column 22, \"3x10\": expected a window no larger"},
    {"input 1x9x9 | conv 3 3 pad 2 | dense 3",
     "column 22, \"3\": expected a pad of at most half the window, not 2"},
    {"input 1x9x9 | conv 3 1x3 pad 1 | dense 3", "expected a pad of at most half the window"},
    {"input 1x9x9 | conv 3 3 stride 0", "column 31, \"0\": expected a number after stride, 1"},
    {"input 1x9x9 | conv 3 3 stride", "ends at column 30: expected a number after stride"},
    {"input 1x9x9 | conv 3 3 pad x", "column 28, \"x\": expected a number after pad, 0 or"},
    {"input 4x9x9 | conv 6 3 groups 3", "expected groups that divide its channels, 4 in and 6"},
    {"input 6x9x9 | conv 4 3 groups 3", "expected groups that divide its channels, 6 in and 4"},
    {"input 4x9x9 | conv 4 3 groups 0", "a number after groups, 1 or more"},
    {"input 1x9x8 | maxpool | dense 3", "column 23, \"|\": expected the window of a pool"},
    {"input 1x9x8 | maxpool 9 | dense 3", "column 23, \"9\": expected a window no larger"},
    {"input 1x9x8 | maxpool 2x3 | dense 3", "column 23, \"2x3\": expected \"stride\" after"},
    {"input 1x9x8 | avgpool 2 nobias", "column 25, \"nobias\": expected \"|\", stride, pad"},
    {"input 5 | relu 5 | dense 3", "column 16, \"5\": expected \"|\" between layers"},
    {"input 5 | dropout | dense 3", "column 19, \"|\": expected the fraction of dropout"},
    {"input 5 | dropout 1 | dense 3", "column 19, \"1\": expected a fraction below 1"},
    {"input 5 | dropout -0.5 | dense 3", "column 19, \"-0.5\": expected the fraction"},
    {"input 5 | dropout nan | dense 3", "column 19, \"nan\": expected the fraction"},
    {"input 5 | lrn 4 | dense 3", "column 15, \"4\": expected an odd number"},
    {"input 5 | lrn 5 k 0 | dense 3", "expected a k above 0"},
    {"input 5 | lrn 5 alpha x", "column 23, \"x\": expected a number after alpha"},
    {"input 5 | embedding 3", "expected an embedding directly after \"input"},
    {"input tokens 5 of 9 | embedding 3 | embedding 3", "column 37, \"embedding\": expected"},
    {"input tokens 5 of 9 | dense 3", "column 23, \"dense\": expected an embedding: only it"},
    {"input tokens 5 of 9 | embedding 3 | concat in | dense 2",
     "column 37, \"concat\": expected an embedding: only it"},
    {"input 3x4x5 | lstm 3", "column 15, \"lstm\": expected a sequence"},
    {"input 3x4x1 | lstm", "ends at column 19: expected the size of lstm"},
    {"input 3x4x1 | lstm 3 layers 0", "column 29, \"0\": expected a number after layers, 1"},
    {"input 3x4x1 | lstm 3 dropout 1.5", "expected a fraction of dropout below 1"},
    {"input 5 | widen 4 | dense 3", "column 17, \"4\": expected at least 5, the number"},
    {"input 5 | add | dense 3", "column 15, \"|\": expected the name of a layer before"},
    {"input 5 | add b | b: dense 3", "column 15, \"b\": expected the name of a layer before"},
    {"input 5 | relu | add relu1 in", "column 28, \"in\": expected \"|\" between layers"},
    {"input 5 | dense 4 | add in | dense 3",
     "column 25, \"in\": expected a value of the shape before it, 4x1x1, not 5x1x1"},
    {"input 2x3x4 | maxpool 1x2 stride 2 | concat in | dense 3",
     "column 45, \"in\": expected a value of 2x2 positions, not 3x4"},
    {"input 5 | concat | dense 3", "column 18, \"|\": expected the name of a layer before"},
    {"input 5 | concat in in in in | dense 3", "column 27, \"in\": expected \"|\" between"},
};

FED_TEST(test_each_layer_refuses_what_it_cannot_take) {
    for (size_t i = 0; i < sizeof bad_layers / sizeof bad_layers[0]; i++) {
        arch_case_refused(bad_layers[i].text, bad_layers[i].words);
    }
}

FED_TEST(test_sizes_that_overflow_are_refused) {
    static const char *const bad[] = {
        "input 4294967295 | dense 1",
        "input 65536x65536x1 | dense 1",
        "input 4294967295x4294967295x4294967295 | dense 1",
        "input 2097152x2097152x4194304 | dense 1", /* 2^64 values */
        "input tokens 4294967295 of 4 | embedding 1",
        "input tokens 2 of 4294967295 | embedding 4294967295",
        "input 1000000 | dense 4294967295",
        "input 268435456 | dense 8", /* 2^31 parameters and the bias */
        "input 1x16384x16384 | conv 2 1x1 | dense 1",
        "input 16x1000x1000 | conv 4294967295 1x1 | dense 1",
        "input 3x4x1 | lstm 4294967295 | dense 1",
        "input 3x4x1 | lstm 67108864 | dense 1",
        "input 9 | widen 4294967295 | dense 1",
        "input 1x4x4 | dense 4294967295 each | dense 1",
        "input 1x16384x16384 | concat in | dense 1",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        arch_case_refused(bad[i], "2^");
    }
    arch_case_refused("input 1x1x1 | maxpool 4294967295 pad 2147483647 | dense 1",
                      "expected the window of a pool");
}

FED_TEST(test_a_layer_is_called_by_its_name_or_its_place) {
    fed_arch arch =
        arch_case_parse("let b(c) = conv c 1 | relu | bn; input 3x2x2 | x: 2 b(4) | dense 3");
    static const char *const names[] = {"x.0.conv1",     "relu, layer 2", "x.0.bn1", "x.1.conv1",
                                        "relu, layer 5", "x.1.bn1",       "dense1"};
    for (size_t i = 0; i < arch.layer_count; i++) {
        char name[64];
        fed_arch_layer_name(&arch, i, name, sizeof name);
        assert_string_equal(name, names[i]);
    }
    char cut[4];
    fed_arch_layer_name(&arch, 1, cut, sizeof cut);
    assert_string_equal(cut, "rel");
    fed_arch_free(&arch);
    assert_string_equal(fed_layer_word(FED_LAYER_BATCHNORM), "bn");
}
