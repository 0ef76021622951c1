/* Nets with every kind of layer, and the engines that can run them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net_case.h"

#include "fed/gpu.h"
#include "fed/rng.h"
#include "fedclient/train/backends/fast/fast.h"
#include "fedtrain/backend.h"

/* Many sizes are no multiples of the vector widths 4, 8 and 16. */
static const char *const texts[] = {
    "input 1 | dense 2",
    "input 5 | dense 3",
    "input 7 | dense 4 nobias | relu | dense 3",
    "input 64 | dense 16 | relu | dense 10",
    "input 67 | dense 33 | relu | dense 11",
    "input 2x3x3 | dense 7",
    "input 19 | relu | dense 4",
    "input 3x6x6 | maxpool 2 | dense 5",
    "input 1x8x8 | conv 4 3x3 | dense 5",
    "input 1x7x9 | conv 3 3x2 | relu | dense 4",
    "input 3x9x8 | conv 17 3x3 | maxpool 2 | dense 6",
    "input 2x11x13 | conv 5 2x3 | relu | maxpool 3 | dense 6",
    "input 1x9x9 | conv 6 2x2 | maxpool 2 | relu | conv 7 3x3 | relu | dense 5 | relu | dense 3",
    "input 2x12x12 | maxpool 2 | conv 9 3x3 | maxpool 2 | maxpool 2 | dense 4",
    "input 5x5x5 | conv 21 1x1 | conv 3 5x5 | dense 2",
    "input 1x14x14 | conv 20 5x5 | maxpool 2 | conv 50 3x3 | maxpool 3 | dense 12 | dense 10",
    "input 3x6x18 | conv 70 3x3 | maxpool 2 | conv 8 2x8 | dense 3",
    "input 6x6x13 | conv 18 3 nobias | maxpool 2 | dense 3",
    "input 9x5x21 | conv 33 2 stride 2 | relu | dense 3",
    "input 2x5x10 | conv 18 1 | conv 17 3 | a: conv 34 1 | conv 34 3 pad 1 | add a | dense 3",
    "input 3x7x6 | conv 5 3 pad 1 | conv 4 3 pad 1 | dense 3",
    "input 2x9x8 | conv 6 3 stride 2 pad 1 nobias | conv 3 3 stride 2 | dense 3",
    "input 3x11x11 | conv 4 5 stride 4 pad 2 | relu | conv 5 1 stride 2 | dense 3",
    "input 4x6x6 | conv 16 3 pad 1 | relu | conv 17 3 pad 1 | dense 3",
    "input 3x8x8 | conv 32 3 pad 1 nobias | relu | conv 32 3 stride 2 pad 1 nobias | dense 2",
    "input 2x6x7 | conv 6 3x5 pad 1 | conv 4 2x4 stride 3 pad 1 | dense 3",
    "input 4x6x6 | conv 6 3 pad 1 groups 2 | conv 6 3 groups 6 | conv 4 1 groups 2 | dense 3",
    "input 8x5x5 | conv 32 3 pad 1 groups 2 nobias | relu | conv 16 3 groups 16 | dense 2",
    "input 2x4x5 | conv 3 1 | conv 520 3 stride 2 pad 1 | conv 4 1 | dense 3",
    "input 2x7x9 | conv 5 3 | maxpool 3 stride 2 pad 1 | dense 3",
    "input 2x8x7 | conv 5 2 | relu | maxpool 3 stride 1 | conv 4 2 | maxpool 2 stride 3 | dense 3",
    "input 3x9x7 | conv 17 3 pad 1 | maxpool 2 stride 2 pad 1 | relu | maxpool 2x3 stride 2 | "
    "dense 3",
    "input 2x7x9 | conv 5 3 | avgpool 3 stride 2 pad 1 | dense 3",
    "input 2x8x8 | conv 17 3 pad 1 | avgpool 2 | relu | avgpool 3 stride 1 | dense 3",
    "input 3x6x8 | avgpool 2 | conv 4 2x3 | avgpool 2x1 stride 1 | dense 3",
    "input 3x6x5 | conv 18 3 pad 1 | relu | avgpool | dense 4",
    "input 3x6x5 | conv 5 3 pad 1 | avgpool",
    "input 9 | dense 21 | tanh | dense 5 | tanh | dense 3",
    "input 9 | dense 21 | sigmoid | dense 5 | sigmoid | dense 3",
    "input 2x6x6 | tanh | conv 5 3 | sigmoid | conv 3 2 | tanh | dense 3",
    "input 20 | dense 40 | dropout 0.5 | dense 7 | relu | dropout 0.25 | dense 3",
    "input 3x6x6 | dropout 0.2 | conv 5 3 | relu | dropout 0.4 | maxpool 2 | dropout 0.1 | dense 3",
    "input 4x5x5 | conv 5 3 | bn | relu | dense 3",
    "input 3x6x6 | bn | conv 17 3 pad 1 nobias | bn | conv 4 3 stride 2 nobias | bn | relu | dense "
    "3",
    "input 10 | dense 19 nobias | bn | relu | dense 3",
    "input 7x4x4 | lrn 3 alpha 0.5 beta 0.6 k 2 | conv 9 2 | lrn 5 alpha 0.9 | dense 3",
    "input 3x8x8 | conv 18 3 | relu | lrn 5 | maxpool 2 | dense 3",
    "input 4x3x3 | conv 3 2 | lrn 7 alpha 2 beta 1 k 0.5 | dense 2",
    "input 3x6x6 | a: conv 5 3 pad 1 | relu | conv 5 3 pad 1 | add a | relu | dense 3",
    "input 8 | a: dense 8 | relu | add a | add in | add a | dense 3",
    "input 3x6x6 | a: conv 4 3 pad 1 | bn | relu | b: conv 4 3 pad 1 | bn | add a | c: relu "
    "| conv 4 3 pad 1 | bn | add c | relu | avgpool | dense 3",
    "input 3x6x6 | a: conv 4 3 stride 2 pad 1 nobias | b: bn | from in | conv 4 1 stride 2 | add b "
    "| relu | dense 3",
    "input 2x5x5 | a: conv 3 1 | from in | conv 5 3 pad 1 | b: relu | from in | maxpool 3 stride 1 "
    "pad 1 | concat a b | conv 17 2 | dense 3",
    "input 2x4x4 | a: relu | from in | b: tanh | from in | c: sigmoid | from in | concat a b c "
    "| conv 4 2 | dense 3",
    "input 4x6x6 | conv 4 3 pad 1 | a: relu | avgpool 1 stride 2 | widen 9 | b: conv 9 2 "
    "| widen 20 | conv 3 1 | dense 3",
    "input 6 | dense 5 | a: relu | concat a | dense 3",
    /* A value is read again after a layer that could have overwritten it */
    "input 2x8x8 | a: conv 5 3 | maxpool 2 | b: conv 4 1 | from a | conv 4 2 stride 2 | add b "
    "| dense 3",
    "input 2x8x8 | a: conv 5 3 | b: maxpool 2 | from a | relu | avgpool 2 | add b | dense 3",
    "input 2x8x8 | a: conv 5 3 | relu | avgpool 2 | b: conv 5 1 | from a | maxpool 2 | add b "
    "| dense 3",
    "input 2x5x5 | a: conv 4 3 | from in | conv 4 3 | b: add a | relu | add b | dense 3",
    "input 3x5x5 | conv 4 3 | a: bn | relu | b: conv 4 1 | from a | add b | dense 3",
    "input 3x5x6 | bn | a: relu | conv 4 3 pad 1 | b: bn | sigmoid | c: conv 4 1 | from b | tanh "
    "| add c | concat a | dense 3",
    "input 3x6x6 | relu | conv 5 3 pad 1 | relu | b: dropout 0.3 | conv 5 1 | dropout 0.2 | add b "
    "| dense 3",
    "input 2x6x6 | a: conv 4 3 pad 1 | relu | relu | add a | relu | dense 3",
    "input 2x6x6 | a: conv 4 3 pad 1 | b: widen 6 | relu | c: conv 6 1 | from b | add c | conv 3 1 "
    "| concat a | dense 2",
    "input 1x6x6 | a: maxpool 2 | b: dense 4 | from a | dense 4 nobias | add b | dense 3",
    "input 6 | a: dense 6 | add a | relu | add a | dense 3",
    "input 2x4x4 | a: conv 3 1 | concat a | relu | concat a | dense 3",
    /* Values that several layers read */
    "input 8 | a: dense 6 | dense 6 | add a | dense 3",
    "input 2x4x4 | a: conv 3 1 | b: dense 4 | from a | dense 4 | add b | dense 3",
    "input 2x7x7 | a: conv 4 2 | conv 4 3 | maxpool 2 | b: conv 4 1 | from a | maxpool 3 | add b "
    "| dense 3",
    "input 3x4x4 | a: conv 5 1 | lrn 3 alpha 1 | add a | b: conv 5 1 | bn | add b | c: conv 5 1 "
    "| widen 5 | add c | d: conv 5 1 | dropout 0.3 | add d | dense 3",
    "input 3x4x4 | a: conv 5 1 | maxpool 3 stride 1 pad 1 | add a | b: conv 5 1 | tanh | add b "
    "| c: conv 5 1 | avgpool 3 stride 1 pad 1 | add c | d: conv 5 1 | sigmoid | add d | dense 3",
    /* These five end with a layer other than dense. */
    "input 3x5x5 | conv 5 3 | maxpool 3",
    "input 3x5x3 | conv 5 3 | bn",
    "input 3x3x3 | conv 19 3 | lrn 3 alpha 1 | relu",
    "input 5 | a: dense 4 | relu | add a",
    "input 5 | a: dense 3 | tanh | concat a in | dropout 0.4",
    "input tokens 6 of 11 | embedding 5 | dense 3 each",
    "input tokens 6 of 11 | embedding 17 | dropout 0.3 | dense 20 each nobias | relu | dense 4",
    "input tokens 5 of 9 | e: embedding 6 | tanh | dense 9 each tied e",
    "input tokens 5 of 21 | e: embedding 16 | dense 16 each | dense 21 each tied e nobias",
    "input 3x5x1 | lstm 4 | dense 3 each",
    "input tokens 7 of 12 | embedding 5 | lstm 17 | dense 3",
    "input tokens 6 of 12 | e: embedding 8 | dropout 0.2 | lstm 8 layers 2 dropout 0.3 | dropout "
    "0.2 "
    "| dense 12 each tied e",
    "input 2x6x1 | lstm 3 layers 3",
    "input 5x4x1 | dense 6 each | a: relu | lstm 6 | add a | bn | dense 3 each",
    "input 4x5x1 | a: lstm 4 | lstm 4 | add a | add in | dense 2 each",
    "input tokens 5 of 9 | e: embedding 6 | lstm 6 | a: dropout 0.2 | from e | dense 6 each "
    "| add a | dense 9 each tied e",
    "input tokens 5 of 9 | e: embedding 6 | a: dense 9 each tied e | from e "
    "| dense 9 each tied e nobias | add a",
    "input 2x5x3 | dense 4 each | relu | dense 17 each | avgpool | dense 3",
};

const char *net_case_text(size_t k) {
    return k < sizeof texts / sizeof texts[0] ? texts[k] : NULL;
}

float *net_case_floats(size_t n) {
    float *x = calloc(n, sizeof *x);
    assert_non_null(x);
    return x;
}

static float centred(fed_rng *rng) {
    return 2 * fed_rng_float(rng) - 1;
}

size_t net_case_scores(const net_case *c, size_t batch) {
    return batch * c->arch.positions * c->arch.classes;
}

static void draw_samples(net_case *c, fed_rng *rng, size_t first, size_t end) {
    const fed_arch *arch = &c->arch;
    const size_t values = fedtrain_shape_size(arch->input), scores = net_case_scores(c, 1);
    for (size_t i = first * values; i < end * values; i++) {
        c->x[i] = arch->words > 0 ? (float)fed_rng_below(rng, arch->words) : centred(rng);
    }
    for (size_t i = first * scores; i < end * scores; i++) {
        c->score_grad[i] = centred(rng);
    }
    for (size_t i = first * arch->positions; i < end * arch->positions; i++) {
        c->label[i] = fed_rng_below(rng, arch->classes);
    }
}

void net_case_make(net_case *c, const char *text) {
    fed_error err = {0};
    *c = (net_case){.text = text};
    if (fed_arch_parse(text, &c->arch, &err) != FED_OK) {
        fail_msg("%s: %s", text, err.text);
    }
    const fed_arch *arch = &c->arch;
    c->params = net_case_floats(arch->layout.size);
    c->x = net_case_floats(NET_CASE_MOST * fedtrain_shape_size(arch->input));
    c->score_grad = net_case_floats(net_case_scores(c, NET_CASE_MOST));
    c->label = calloc(NET_CASE_MOST * (size_t)arch->positions, sizeof *c->label);
    assert_non_null(c->label);
    fed_rng rng;
    fed_rng_init(&rng, 7, 1, 1);
    fed_arch_init_values(arch, 3, c->params);
    for (size_t i = 0; i < arch->layout.size; i++) {
        c->params[i] += 0.05F * centred(&rng);
    }
    draw_samples(c, &rng, 0, NET_CASE_BATCH);
    draw_samples(c, &rng, NET_CASE_BATCH, NET_CASE_MOST);
}

void net_case_free(net_case *c) {
    free(c->params);
    free(c->x);
    free(c->score_grad);
    free(c->label);
    fed_arch_free(&c->arch);
}

fedtrain_pass net_case_pass(const net_case *c, size_t batch) {
    return (fedtrain_pass){
        .params = c->params, .x = c->x, .batch = batch, .training = true, .seed = 7};
}

fedtrain_batch net_case_batch(const net_case *c, size_t batch) {
    return (fedtrain_batch){
        .size = batch, .x = c->x, .label = c->label, .target = c->score_grad, .seed = 7};
}

static void open_named(const char *name, const fed_arch *arch, net_engine *engine) {
    fed_error err = {0};
    *engine = (net_engine){.name = name};
    assert_fed_ok_err(fedtrain_backend_find(name, &engine->backend, &err));
    assert_fed_ok_err(engine->backend->open(arch, NET_CASE_MOST, name, &engine->work, &err));
}

static void check_named(const char *named) {
    static bool checked;
    fed_gpu *gpu = NULL;
    fed_error err = {0};
    if (!checked) {
        assert_fed_ok_err(fed_gpu_open(named, NULL, &gpu, &err));
        fed_gpu_close(gpu);
        checked = true;
    }
}

const char *net_case_device(void) {
    /* A cache of kernels, because compiling them is slow. */
    (void)setenv("FED_GPU_CACHE", FED_BIN_DIR "/../gpu_cache", 0);
    const char *named = getenv("FED_TEST_DEVICE");
    fed_gpu_info info;
    if (named != NULL) {
        check_named(named);
    }
    for (size_t k = 0; named == NULL && fed_gpu_list(k, &info) == FED_OK; k++) {
        named = info.lacks[0] == '\0' ? "gpu" : NULL;
    }
    return named;
}

const char *net_case_backend(size_t k, const fed_arch *arch) {
    const char *name;
    for (size_t i = 0; (name = fedtrain_backend_name(i)) != NULL; i++) {
        name = strcmp(name, "gpu") == 0 ? net_case_device() : name;
        if (name != NULL && fedtrain_backend_fits(name, arch, NULL) == FED_OK && k-- == 0) {
            return name;
        }
    }
    return NULL;
}

/* Return the k-th backend that can run this net, NULL after the last. Left out are reference, fast
 * and bfloat16. */
static const char *other_backend(size_t k, const fed_arch *arch) {
    const char *name;
    for (size_t i = 0; (name = net_case_backend(i, arch)) != NULL; i++) {
        const bool known = strcmp(name, "reference") == 0 || strcmp(name, "fast") == 0 ||
                           strcmp(name, "bfloat16") == 0;
        if (!known && k-- == 0) {
            return name;
        }
    }
    return NULL;
}

size_t net_engine_hosts(void) {
    size_t sets = 0;
    while (fedtrain_kernels_get(sets) != NULL) {
        sets++;
    }
    return 1 + sets;
}

bool net_engine_open(size_t k, const fed_arch *arch, net_engine *engine) {
    if (k == 0) {
        open_named("reference", arch, engine);
        return true;
    }
    const fedtrain_kernels *kernels = fedtrain_kernels_get(k - 1);
    if (kernels != NULL) {
        *engine = (net_engine){.name = kernels->isa};
        assert_fed_ok(fedtrain_backend_find("fast", &engine->backend, NULL));
        assert_fed_ok(fedtrain_fast_open(arch, NET_CASE_MOST, kernels, &engine->work));
        return true;
    }
    const char *name = other_backend(k - net_engine_hosts(), arch);
    if (name != NULL) {
        open_named(name, arch, engine);
    }
    return name != NULL;
}

void net_engine_close(net_engine *engine) {
    engine->backend->close(engine->work);
}

void net_engine_forward(const net_engine *engine, const fedtrain_pass *pass, float *score) {
    assert_fed_ok(engine->backend->forward(engine->work, pass, score));
}

void net_engine_backward(const net_engine *engine, const fedtrain_pass *pass,
                         const float *score_grad, float *grad) {
    const fedtrain_gradient to = {.at = grad};
    assert_fed_ok(engine->backend->backward(engine->work, pass, score_grad, &to));
}

void net_case_each(void (*check)(const net_case *c, const net_engine *e)) {
    enum { EIGHTH = 8 };
    const char *text;
    for (size_t k = 0; (text = net_case_text(k)) != NULL; k++) {
        const size_t most = k % EIGHTH == 0 ? SIZE_MAX : net_engine_hosts();
        net_case c;
        net_engine e;
        net_case_make(&c, text);
        for (size_t i = 0; i < most && net_engine_open(i, &c.arch, &e); i++) {
            check(&c, &e);
            net_engine_close(&e);
        }
        net_case_free(&c);
    }
}
