/* The models of models.def have as many parameters, and the same tensor names, as published. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "arch_case.h"
#include "fed/file.h"

static const struct {
    const char *name;
    size_t parameters, layers;
    uint32_t classes;
    const char *source; /* where the number of parameters is published */
} known[] = {
    {"lr", 7850, 1, 10, "784 * 10 + 10"},
    {"mlp", 199210, 5, 10, "McMahan et al. 2017, section 3: 199,210"},
    {"hdc", 1149010, 9, 10, "784 * 500 + 500, 3 * (500 * 500 + 500), 500 * 10 + 10"},
    {"lenet5-caffe", 431080, 7, 10, "Caffe's examples/mnist, lenet.prototxt"},
    {"lenet5", 61706, 11, 10, "LeCun et al. 1998 with a full second convolution"},
    {"resnet20", 269722, 72, 10, "akamaster/pytorch_resnet_cifar10: 0.27M"},
    {"resnet32", 464154, 114, 10, "akamaster/pytorch_resnet_cifar10: 0.46M"},
    {"resnet110", 1727962, 387, 10, "akamaster/pytorch_resnet_cifar10: 1.7M"},
    {"resnet18", 11689512, 68, 1000, "torchvision"},
    {"resnet34", 21797672, 124, 1000, "torchvision"},
    {"resnet50", 25557032, 174, 1000, "torchvision"},
    {"vgg16", 138357544, 38, 1000, "torchvision"},
    {"alexnet", 61100840, 20, 1000, "torchvision"},
    {"inception-bn", 11295240, 231, 1000, "MXNet's symbols/inception-bn.py, layer by layer"},
    {"inception-bn-cifar", 1652826, 71, 10, "its form for small pictures, layer by layer"},
    {"wordlstm", 2653200, 7, 10000,
     "PyTorch's word_language_model --tied: 10000 * 200 + 2 * (8 * 200 * 200 + 8 * 200) + 10000"},
    {"wordlstm-medium", 13280400, 7, 10000, "the same with --emsize 650 --nhid 650"},
};

FED_TEST(test_models_have_their_published_sizes) {
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        fed_arch arch = arch_case_parse(known[i].name);
        if (arch.trained != known[i].parameters || arch.classes != known[i].classes ||
            arch.layer_count != known[i].layers) {
            fail_msg("%s has %zu parameters in %zu layers for %u classes, not %zu (%s), %zu, %u",
                     known[i].name, arch.trained, arch.layer_count, arch.classes,
                     known[i].parameters, known[i].source, known[i].layers, known[i].classes);
        }
        fed_arch_free(&arch);
    }
}

FED_TEST(test_every_model_is_in_this_table_and_canonical) {
    size_t k = 0;
    for (; fed_arch_name(k) != NULL; k++) {
        assert_in_range(k, 0, sizeof known / sizeof known[0] - 1);
        assert_string_equal(fed_arch_name(k), known[k].name);
        fed_arch arch = arch_case_parse(fed_arch_name(k));
        assert_string_equal(arch.text, fed_arch_text(k));
        fed_arch_free(&arch);
    }
    assert_int_equal(k, sizeof known / sizeof known[0]);
    assert_null(fed_arch_text(k));
}

/* Write a number with commas: 1234567 becomes "1,234,567". */
static void group_digits(size_t number, char *text, size_t cap) {
    char digits[24];
    snprintf(digits, sizeof digits, "%zu", number);
    size_t len = strlen(digits), at = 0;
    for (size_t i = 0; i < len && at + 2 < cap; i++) {
        if (i > 0 && (len - i) % 3 == 0) {
            text[at++] = ',';
        }
        text[at++] = digits[i];
    }
    text[at] = '\0';
}

static void check_row(const char *page, const fed_arch *arch, const char *name) {
    char parameters[32], classes[32], shape[40], row[200];
    group_digits(arch->trained, parameters, sizeof parameters);
    group_digits(arch->classes, classes, sizeof classes);
    fed_shape in = arch->input;
    if (arch->words > 0) {
        snprintf(shape, sizeof shape, "%u of %u", in.h, arch->words);
    } else if (in.h * in.w == 1) {
        snprintf(shape, sizeof shape, "%u", in.c);
    } else {
        snprintf(shape, sizeof shape, "%ux%ux%u", in.c, in.h, in.w);
    }
    snprintf(row, sizeof row, "\n| `%s` | %s | %s | %s | ", name, parameters, shape, classes);
    if (strstr(page, row) == NULL) {
        fail_msg("docs/models.md lacks the row \"%s...\"", row + 1);
    }
}

FED_TEST(test_the_manual_lists_every_model) {
    uint8_t *page;
    size_t len;
    fed_error err = {0};
    assert_fed_ok_err(fed_file_read(FED_SOURCE_DIR "/docs/models.md", 1 << 20, &page, &len, &err));
    for (size_t k = 0; fed_arch_name(k) != NULL; k++) {
        fed_arch arch = arch_case_parse(fed_arch_name(k));
        check_row((const char *)page, &arch, fed_arch_name(k));
        fed_arch_free(&arch);
    }
    free(page);
}

/* The model's tensors must begin with these names, in the order of PyTorch's state_dict(). Running
 * statistics are left out, since here they follow after all weights. */
static void check_begins(const char *model, const char *const *names, size_t count) {
    fed_arch arch = arch_case_parse(model);
    assert_in_range(count, 0, arch.layout.count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(arch.layout.tensors[i].name, names[i]);
    }
    fed_arch_free(&arch);
}

static void check_has(const char *model, const char *name, uint32_t rank, const uint32_t *dims) {
    fed_arch arch = arch_case_parse(model);
    const fed_tensor *tensor = fed_layout_find(&arch.layout, name);
    if (tensor == NULL) {
        fail_msg("%s has no tensor %s", model, name);
    }
    assert_int_equal(tensor->rank, rank);
    assert_memory_equal(tensor->dims, dims, rank * sizeof *dims);
    fed_arch_free(&arch);
}

FED_TEST(test_tensors_are_called_as_in_the_well_known_implementations) {
    static const char *const cifar[] = {
        "conv1.weight",          "bn1.weight",          "bn1.bias",
        "layer1.0.conv1.weight", "layer1.0.bn1.weight", "layer1.0.bn1.bias",
        "layer1.0.conv2.weight", "layer1.0.bn2.weight"};
    check_begins("resnet20", cifar, sizeof cifar / sizeof cifar[0]);
    check_begins("resnet18", cifar, sizeof cifar / sizeof cifar[0]);
    check_has("resnet20", "linear.weight", 2, (uint32_t[]){10, 64});
    check_has("resnet20", "layer3.2.bn2.running_var", 1, (uint32_t[]){64});
    check_has("resnet110", "layer1.17.conv2.weight", 4, (uint32_t[]){16, 16, 3, 3});
    check_has("resnet110", "layer2.17.conv1.weight", 4, (uint32_t[]){32, 32, 3, 3});
    check_has("resnet18", "layer2.0.downsample.0.weight", 4, (uint32_t[]){128, 64, 1, 1});
    check_has("resnet18", "layer4.1.bn2.weight", 1, (uint32_t[]){512});
    check_has("resnet34", "layer3.5.conv1.weight", 4, (uint32_t[]){256, 256, 3, 3});
    check_has("resnet50", "layer1.0.downsample.1.bias", 1, (uint32_t[]){256});
    check_has("resnet50", "layer4.2.conv1.weight", 4, (uint32_t[]){512, 2048, 1, 1});
    check_has("resnet50", "fc.weight", 2, (uint32_t[]){1000, 2048});
    check_has("vgg16", "features.28.weight", 4, (uint32_t[]){512, 512, 3, 3});
    check_has("vgg16", "classifier.0.weight", 2, (uint32_t[]){4096, 25088});
    check_has("alexnet", "features.3.weight", 4, (uint32_t[]){192, 64, 5, 5});
    check_has("alexnet", "classifier.1.weight", 2, (uint32_t[]){4096, 9216});
    check_has("inception-bn", "3c.double_1.conv.weight", 4, (uint32_t[]){96, 96, 3, 3});
    check_has("inception-bn", "5a.1x1.conv.weight", 4, (uint32_t[]){352, 1056, 1, 1});
    check_has("inception-bn-cifar", "fc1.weight", 2, (uint32_t[]){10, 336});
    check_has("wordlstm-medium", "encoder.weight", 2, (uint32_t[]){10000, 650});
    check_has("wordlstm-medium", "rnn.weight_ih_l1", 2, (uint32_t[]){2600, 650});
    check_has("wordlstm", "decoder.bias", 1, (uint32_t[]){10000});
    check_has("lenet5", "fc1.weight", 2, (uint32_t[]){120, 400});
}

FED_TEST(test_a_shortcut_of_option_a_pads_channels_on_both_sides) {
    fed_arch arch = arch_case_parse("resnet20");
    size_t widened = 0;
    for (size_t i = 1; i + 1 < arch.layer_count; i++) {
        const fed_layer *l = &arch.layers[i];
        if (l->kind == FED_LAYER_WIDEN) {
            const fed_layer *pool = &arch.layers[i - 1], *add = &arch.layers[i + 1];
            assert_int_equal(pool->kind, FED_LAYER_MAXPOOL);
            assert_int_equal(pool->kh, 1);
            assert_int_equal(pool->stride, 2);
            assert_int_equal(l->out.c, 2 * l->in.c);
            assert_int_equal(add->kind, FED_LAYER_ADD);
            assert_int_equal(arch.layers[add->input[1] - 1].kind, FED_LAYER_BATCHNORM);
            widened++;
        }
    }
    assert_int_equal(widened, 2);
    fed_arch_free(&arch);
}
