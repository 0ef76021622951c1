/* Runs each kernel of a list once, for instructions.py. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fed/rng.h"
#include "fedcodec/codec.h"
#include "fedtrain/net.h"
#include "fedtrain/optimizer.h"
#include "gradients.h"

/* The program prints a kernel's name, and calls measured_kernel, in which instructions.py counts
 * instructions by callgrind. */

enum { VALUES = 65536, BATCH = 4, CLASSES = 10 };

static const char *const codecs[] = {"3lc:s=1",
                                     "3lc:s=1.75",
                                     "sbc:p=0.01",
                                     "sbc:p=0.001",
                                     "stc:p=0.01",
                                     "dgc:p=0.01",
                                     "topk:p=0.05",
                                     "twobit",
                                     "onebit",
                                     "stoch3",
                                     "int8",
                                     "float16",
                                     "inceptionn:e=10",
                                     "trunc:b=16",
                                     "3lc:s=1 dense",
                                     "qsgd",
                                     "natural",
                                     "eden",
                                     "eden:p=0.008",
                                     "topk:p=0.05,values=int8",
                                     "dgc:p=0.01,values=bfloat16",
                                     "threshold:t=0.005",
                                     "powersgd",
                                     "powersgd:rank=4,values=bfloat16"};

static const struct {
    const char *name, *text;
} nets[] = {{"lenet5-caffe", "lenet5-caffe"},
            {"hdc", "hdc"},
            {"convolutions", "input 3x32x32 | conv 16 3 pad 1 | relu | conv 16 3 pad 1 | relu |"
                             " avgpool | dense 10"}};

void measured_kernel(void (*run)(void *user), void *user);
void measured_kernel(void (*run)(void *user), void *user) {
    run(user);
    __asm__ volatile(""); /* prevents a tail call */
}

static void measure(const char *what, const char *of, void (*run)(void *user), void *user) {
    /* volatile, so that the compiler makes no clone with another name */
    void (*volatile measured)(void (*)(void *), void *) = measured_kernel;
    printf("%s: %s\n", of, what);
    fflush(stdout);
    measured(run, user);
}

typedef struct coding {
    fedcodec codec;
    gradients g;
    float *residual;
    int64_t *sum;
    void *work;
    uint8_t *message;
    size_t cap, len;
    int round;
} coding;

static void encode(void *user) {
    coding *c = user;
    bench_require(fedcodec_encode(&c->codec, c->residual, c->g.g[c->round++], VALUES, c->work,
                                  c->message, c->cap, &c->len),
                  "encode");
}

static void fold(void *user) {
    coding *c = user;
    bench_require(fedcodec_fold(c->codec.vtable, c->message, c->len, 1, c->sum, VALUES), "fold");
}

static void run_codec(const char *setting) {
    fed_error err = {0};
    char spec[FEDCODEC_SPEC];
    coding c = {.round = 0};
    snprintf(spec, sizeof spec, "%.*s", (int)strcspn(setting, " "), setting);
    bench_require(fedcodec_parse(spec, &c.codec, &err), err.text);
    gradients_draw(&c.g, VALUES, strstr(setting, " dense") != NULL);
    c.cap = fedcodec_bound(&c.codec, VALUES);
    c.residual = bench_alloc(VALUES * sizeof *c.residual);
    c.sum = bench_alloc(VALUES * sizeof *c.sum);
    c.work = bench_alloc(fedcodec_work_size(&c.codec, VALUES) + 1);
    c.message = bench_alloc(c.cap);
    encode(&c);
    measure("encode", setting, encode, &c);
    measure("fold", setting, fold, &c);
    free(c.residual);
    free(c.sum);
    free(c.work);
    free(c.message);
    gradients_free(&c.g);
}

typedef struct training {
    fed_arch arch;
    fed_optimizer rule;
    fedtrain_net *net;
    float *params, *state, *x;
    uint32_t label[BATCH];
} training;

static void step(void *user) {
    training *t = user;
    fed_error err = {0};
    float loss;
    const fedtrain_batch samples = {.size = BATCH, .x = t->x, .label = t->label};
    bench_require(fedtrain_net_step(t->net, &t->rule, t->params, t->state, &samples, &loss, &err),
                  err.text);
}

static void run_net(const char *name, const char *text) {
    fed_error err = {0};
    training t = {.net = NULL};
    fed_rng rng;
    bench_require(fed_arch_parse(text, &t.arch, &err), err.text);
    bench_require(fed_optimizer_parse("momentum", 1e-3F, &t.rule, &err), err.text);
    bench_require(fedtrain_net_new(&t.arch, BATCH, NULL, &t.net, &err), err.text);
    const size_t inputs = BATCH * (size_t)t.arch.input.c * t.arch.input.h * t.arch.input.w,
                 size = t.arch.layout.size;
    t.params = bench_alloc(size * sizeof *t.params);
    t.state = bench_alloc(fedtrain_optimizer_state_size(&t.rule, size) * sizeof *t.state);
    t.x = bench_alloc(inputs * sizeof *t.x);
    fed_arch_init_values(&t.arch, 1, t.params);
    fed_rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < inputs; i++) {
        t.x[i] = fed_rng_float(&rng);
    }
    for (uint32_t i = 0; i < BATCH; i++) {
        t.label[i] = i % CLASSES;
    }
    step(&t); /* makes the net's plan, which is not measured */
    measure("step of 4 samples", name, step, &t);
    fedtrain_net_free(t.net);
    fed_arch_free(&t.arch);
    free(t.params);
    free(t.state);
    free(t.x);
}

int main(void) {
    for (size_t k = 0; k < sizeof codecs / sizeof codecs[0]; k++) {
        run_codec(codecs[k]);
    }
    for (size_t k = 0; k < sizeof nets / sizeof nets[0]; k++) {
        run_net(nets[k].name, nets[k].text);
    }
    return 0;
}
