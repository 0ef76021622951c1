/* ONNX files: the exact bytes for a small net; with Python's onnx, also that files are valid and
 * give the same scores. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/file.h"
#include "fed/rng.h"
#include "fed/version.h"
#include "fedclient/train/onnx_graph.h"
#include "fedtrain/net.h"
#include "fedtrain/onnx.h"

/* Make weights as after some training: no bias is 0, and no running statistic is 0 or 1. */
static float *draw_params(const fed_arch *arch) {
    float *params = malloc(arch->layout.size * sizeof *params);
    assert_non_null(params);
    fed_arch_init_values(arch, 3, params);
    fed_rng rng;
    fed_rng_init(&rng, 5, 6, 7);
    for (size_t i = 0; i < arch->layout.count; i++) {
        const fed_tensor *t = &arch->layout.tensors[i];
        for (size_t k = 0; t->rank == 1 && k < t->size; k++) {
            params[t->offset + k] += 0.3F * fed_rng_float(&rng);
        }
    }
    return params;
}

static void write_case(const char *name, const char *model) {
    enum { BATCH = 2 };
    fed_arch arch = {0};
    fed_error err = {0};
    fedtrain_net *net = NULL;
    char path[400];
    assert_fed_ok_err(fed_arch_parse(model, &arch, &err));
    float *params = draw_params(&arch);
    snprintf(path, sizeof path, "%s/%s.onnx", fed_test_dir, name);
    assert_fed_ok_err(fedtrain_onnx_save(path, &arch, params, NULL, &err));

    size_t in = BATCH * (size_t)arch.input.c * arch.input.h * arch.input.w;
    size_t out = BATCH * (size_t)arch.positions * arch.classes;
    float *x = malloc(in * sizeof *x), *score = malloc(out * sizeof *score);
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < in; i++) {
        x[i] = arch.words > 0 ? (float)fed_rng_below(&rng, arch.words)
                              : 2.0F * fed_rng_float(&rng) - 1.0F;
    }
    assert_fed_ok(fedtrain_net_new(&arch, BATCH, "reference", &net, NULL));
    const fedtrain_batch batch = {.size = BATCH, .x = x};
    assert_fed_ok_err(fedtrain_net_forward(net, params, &batch, score, &err));
    snprintf(path, sizeof path, "%s.in", name);
    fed_test_put(fed_test_dir, path, x, in * sizeof *x);
    snprintf(path, sizeof path, "%s.out", name);
    fed_test_put(fed_test_dir, path, score, out * sizeof *score);
    fedtrain_net_free(net);
    fed_arch_free(&arch);
    free(params);
    free(score);
    free(x);
}

static const char *find_python(void) {
    static const char *const candidates[] = {"python3", "/usr/bin/python3", NULL};
    size_t k = 0;
    for (char command[200]; candidates[k] != NULL; k++) {
        snprintf(command, sizeof command, "%s -c 'import onnx, numpy' 2>/dev/null", candidates[k]);
        if (system(command) == 0) {
            break;
        }
    }
    return candidates[k];
}

/* Small nets with each kind of layer, in each shape that values can have. */
static const struct {
    const char *name, *model;
} nets[] = {
    {"pictures",
     "input 2x9x8 | conv 4 3x2 stride 2 pad 1 groups 2 | tanh | conv 6 2 nobias | bn | relu "
     "| maxpool 2 stride 1 pad 1 | lrn 3 alpha 0.5 beta 0.6 k 2 | avgpool 2 | dense 5"},
    {"branches", "input 2x6x6 | a: conv 3 3 pad 1 | relu | b: conv 5 1 | from a | c: sigmoid "
                 "| concat b a | d: maxpool 1 stride 2 | widen 14 | e: conv 14 3 pad 1 | add e "
                 "| avgpool | dropout 0.5 | dense 4"},
    {"rows", "input 7 | a: dense 6 | bn | tanh | dropout 0.1 | b: dense 6 nobias | add a | concat "
             "b | dense 3 | mse"},
    {"rows-as-pictures", "input 6 | conv 4 1 | relu | dense 3"},
    {"words", "input tokens 5 of 11 | emb: embedding 6 | dropout 0.2 | lstm 6 layers 2 dropout 0.3 "
              "| dense 11 each tied emb"},
    {"one-score-a-text", "input tokens 4 of 9 | embedding 5 | lstm 3 | dense 2"},
    {"sequences-as-pictures",
     "input tokens 6 of 9 | embedding 4 | bn | a: conv 4 3x1 pad 0 | relu | dense 3 each"},
    {"each-pixel",
     "input 3x4x3 | avgpool 3x2 stride 2 pad 1 | dense 5 each | relu | conv 4 2 | dense 3"},
};

/* The file has the format of Protocol Buffers. A field begins with 8 times its number, plus 0 for
 * an integer or 2 for a length with that many bytes. */
static const char golden[] =
    "\x08\x07" /* IR version 7 */
    "\x12\x08"
    "fedtrain"                   /* name of the producer */
    "\x1a\x05" FED_VERSION       /* version of the producer */
    "\x42\x02\x10\x0d"           /* operator set 13 */
    "\x72\x06\x0a\x01k\x12\x01v" /* metadata */
    "\x3a\xf6\x01"               /* the graph has 246 bytes */
    "\x12\x05model"
    /* An input of floats, {batch, 2}. */
    "\x5a\x1c\x0a\x05input\x12\x13\x0a\x11\x08\x01\x12\x0d\x0a\x07\x12\x05"
    "batch\x0a\x02\x08\x02"
    /* The node v1 = Gemm(input, dense1.weight, dense1.bias), with the integer transB = 1. */
    "\x0a\x4b\x22\x04Gemm\x1a\x0d"
    "dense1/Gemm_1\x0a\x05input\x0a\x0d"
    "dense1.weight\x0a\x0b"
    "dense1.bias"
    "\x2a\x0d\x0a\x06transB\xa0\x01\x02\x18\x01\x12\x02v1"
    /* The node scores = Identity(v1), and the output {batch, 1} of floats. */
    "\x0a\x29\x22\x08Identity\x1a\x11scores/Identity_2\x0a\x02v1\x12\x06scores"
    "\x62\x1d\x0a\x06scores\x12\x13\x0a\x11\x08\x01\x12\x0d\x0a\x07\x12\x05"
    "batch\x0a\x02\x08\x01"
    /* The weights of shape {1, 2} and {1}, as floats. */
    "\x2a\x1f\x08\x01\x08\x02\x10\x01\x42\x0d"
    "dense1.weight\x4a\x08\x00\x00\x80\x3f\x00\x00\x20\xc0"
    "\x2a\x17\x08\x01\x10\x01\x42\x0b"
    "dense1.bias\x4a\x04\x00\x00\x00\x3f";

FED_TEST(a_small_net_has_exactly_these_bytes) {
    static const float params[] = {1.0F, -2.5F, 0.5F};
    static const char *const metadata[] = {"k", "v", NULL};
    fed_arch arch = {0};
    fed_error err = {0};
    char path[400];
    uint8_t *data = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/small.onnx", fed_test_dir);
    assert_fed_ok_err(fed_arch_parse("input 2 | dense 1", &arch, &err));
    assert_fed_ok_err(fedtrain_onnx_save(path, &arch, params, metadata, &err));
    assert_fed_ok_err(fed_file_read(path, 10000, &data, &len, &err));
    assert_int_equal(len, sizeof golden - 1);
    assert_memory_equal(data, golden, len);
    free(data);
    fed_arch_free(&arch);
}

FED_TEST(what_cannot_be_written_leaves_no_file) {
    static const float params[] = {1.0F, 2.0F, NAN};
    fed_arch arch = {0};
    fed_error err = {0};
    char path[400];
    snprintf(path, sizeof path, "%s/none.onnx", fed_test_dir);
    assert_fed_ok_err(fed_arch_parse("input 2 | dense 1", &arch, &err));
    assert_fed_status(fedtrain_onnx_save(path, &arch, params, NULL, &err), FED_ENONFINITE);
    assert_fed_says(err, "\"dense1.bias\"");
    assert_int_not_equal(access(path, F_OK), 0);
    fed_arch_free(&arch);

    /* The weight has 2 GiB. Its values are not read, so they need not exist. */
    onnx_graph graph;
    onnx_graph_init(&graph);
    onnx_weight_add(&graph, &(onnx_weight){.name = "w", .parts = 8, .part_size = 1U << 26});
    assert_fed_status(onnx_graph_save(&graph, path, NULL, &err), FED_ERANGE);
    assert_fed_says(err, "2 GiB");
    assert_int_not_equal(access(path, F_OK), 0);
    onnx_graph_free(&graph);
}

FED_TEST(the_scores_are_those_of_our_net) {
    const char *python = find_python();
    if (python == NULL) {
        print_message("no Python here has onnx (deploy/setup.sh --bench installs it)\n");
        skip();
    }
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        write_case(nets[i].name, nets[i].model);
    }
    write_case("lenet5-caffe", "lenet5-caffe");
    write_case("lenet5", "lenet5");
    write_case("resnet20", "resnet20");
    char command[700];
    snprintf(command, sizeof command, "%s '%s/tests/fedclient/train/onnx_check.py' '%s'", python,
             FED_SOURCE_DIR, fed_test_dir);
    int status = system(command);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    return fed_cases_run_each(fed_test_dir_make, fed_test_dir_remove);
}
