/* The backend bfloat16: its rounding, and its nets with every set of kernels. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "net_case.h"

#include <math.h>

#include "fed/rng.h"
#include "fedclient/train/backends/fast/fast.h"
#include "fedclient/train/kernels.h"

static uint32_t bits_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Return the bfloat16 number nearest to v; on a tie, the even one. */
static uint32_t nearest(float v) {
    const uint32_t below = bits_of(v) & 0xffff0000, above = below + 0x10000;
    if (!isfinite(v)) {
        return isnan(v) ? (bits_of(v) | 0x400000) >> 16 : below >> 16;
    }
    const double end = isinf(float_of(above)) ? copysign(0x1p128, (double)v) : float_of(above);
    const double down = fabs(v - (double)float_of(below)), up = fabs(end - v);
    return (down < up || (down == up && (below & 0x10000) == 0) ? below : above) >> 16;
}

static void check_pairs(const fedtrain_kernels *k, const float *x, size_t n, size_t apart,
                        const float *got) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t second = i + apart < n ? nearest(x[i + apart]) : 0;
        const uint32_t wanted = second << 16 | nearest(x[i]);
        if (bits_of(got[i]) != wanted) {
            fail_msg("%s: pair %zu of %zu, %zu apart, is %08x, not %08x", k->isa, i, n, apart,
                     bits_of(got[i]), wanted);
        }
    }
}

FED_TEST(test_pairs_are_of_the_nearest_values) {
    enum { MOST = 100 };
    static const uint32_t edges[] = {0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fffffff,
                                     0x7f800001, 0xffc12345, 0x3f808000, 0x3f818000, 0x3f807fff,
                                     0x3f808001, 0x7f7fffff, 0x7f7f7fff, 0x00000001, 0x00008000,
                                     0x80018000, 0x007fffff};
    enum { EDGES = sizeof edges / sizeof edges[0] };
    float x[MOST + 1], pairs[MOST + 1];
    const fedtrain_kernels *k;
    fed_rng rng;
    fed_rng_init(&rng, 5, 0, 0);
    for (size_t i = 0; i <= MOST; i++) {
        const uint32_t bits = i < EDGES ? edges[i] : fed_rng_below(&rng, UINT32_MAX);
        memcpy(&x[i], &bits, sizeof bits);
    }
    for (size_t isa = 0; (k = fedtrain_kernels_bfloat16(isa)) != NULL; isa++) {
        for (size_t n = 1; n <= MOST; n++) {
            for (size_t apart = 1; apart <= n + 1; apart += 1 + apart / 3) {
                pairs[n] = 7;
                k->pairs(x, n, apart, pairs);
                check_pairs(k, x, n, apart, pairs);
                assert_true(pairs[n] == 7);
                memcpy(pairs, x, n * sizeof *x);
                k->pairs(pairs, n, apart, pairs);
                check_pairs(k, x, n, apart, pairs);
            }
        }
    }
}

/* The results of the second of two training passes. */
typedef struct answers {
    float *score, *grad;
} answers;

static answers ask(const net_case *net, const net_engine *e, size_t batch) {
    const fedtrain_pass pass = net_case_pass(net, batch);
    const answers a = {net_case_floats(net_case_scores(net, batch)),
                       net_case_floats(net->arch.trained)};
    e->backend->forget(e->work);
    for (size_t i = 0; i < 2; i++) {
        net_engine_forward(e, &pass, a.score);
        net_engine_backward(e, &pass, net->score_grad, a.grad);
    }
    return a;
}

static void answers_free(answers a) {
    free(a.score);
    free(a.grad);
}

typedef void comparison(const net_case *net, const char *isa, const float *got, const float *wanted,
                        size_t n);

static void compare(const net_case *net, size_t batch, comparison *assert_fits) {
    net_engine reference, engine = {0};
    const fedtrain_kernels *kernels;
    assert_true(net_engine_open(0, &net->arch, &reference));
    const answers wanted = ask(net, &reference, batch);
    assert_fed_ok(fedtrain_backend_find("bfloat16", &engine.backend, NULL));
    for (size_t k = 0; (kernels = fedtrain_kernels_bfloat16(k)) != NULL; k++) {
        assert_fed_ok(fedtrain_fast_open(&net->arch, NET_CASE_MOST, kernels, &engine.work));
        const answers got = ask(net, &engine, batch);
        assert_fits(net, kernels->isa, got.score, wanted.score, net_case_scores(net, batch));
        assert_fits(net, kernels->isa, got.grad, wanted.grad, net->arch.trained);
        answers_free(got);
        net_engine_close(&engine);
    }
    answers_free(wanted);
    net_engine_close(&reference);
}

/* Returns whether the net gives whole numbers for inputs and weights that are whole numbers. */
static bool keeps_whole_numbers(const fed_arch *arch) {
    bool keeps = arch->words == 0;
    for (size_t l = 0; l < arch->layer_count; l++) {
        switch (arch->layers[l].kind) {
        case FED_LAYER_DENSE:
        case FED_LAYER_CONV:
        case FED_LAYER_MAXPOOL:
        case FED_LAYER_RELU:
        case FED_LAYER_WIDEN:
        case FED_LAYER_ADD:
        case FED_LAYER_CONCAT:
            break;
        default:
            keeps = false;
        }
    }
    return keeps;
}

/* Draw -1, 0 or 1. With a large `seldom`, most are 0, so that long sums stay small. */
static void draw_whole(fed_rng *rng, float *x, size_t n, uint32_t seldom) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t drawn = fed_rng_below(rng, seldom);
        x[i] = drawn == 0 ? -1 : drawn == 1 ? 1 : 0;
    }
}

static void assert_equal(const net_case *net, const char *isa, const float *got,
                         const float *wanted, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!(got[i] == wanted[i])) {
            fail_msg("%s (%s): value %zu is %g, the reference's %g", net->text, isa, i,
                     (double)got[i], (double)wanted[i]);
        }
    }
}

/* Whole numbers up to 256 are exact in bfloat16, and so are the sums in these nets. */
FED_TEST(test_nets_of_small_whole_numbers_are_exact) {
    const char *text;
    size_t nets = 0;
    for (size_t k = 0; (text = net_case_text(k)) != NULL; k++) {
        net_case net;
        fed_rng rng;
        net_case_make(&net, text);
        fed_rng_init(&rng, 9, (uint32_t)k, 0);
        draw_whole(&rng, net.params, net.arch.layout.size, 12);
        draw_whole(&rng, net.x, NET_CASE_MOST * fedtrain_shape_size(net.arch.input), 3);
        draw_whole(&rng, net.score_grad, net_case_scores(&net, NET_CASE_MOST), 3);
        if (keeps_whole_numbers(&net.arch)) {
            compare(&net, 1, assert_equal);
            compare(&net, NET_CASE_BATCH, assert_equal);
            nets++;
        }
        net_case_free(&net);
    }
    assert_in_range(nets, 30, SIZE_MAX);
}

/* Rounding changes each operand by up to 1 part in 2^9. */
static void assert_near(const net_case *net, const char *isa, const float *got, const float *wanted,
                        size_t n) {
    double apart = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        apart += pow((double)got[i] - wanted[i], 2);
        all += pow(wanted[i], 2);
    }
    if (!(sqrt(apart) <= 0.1 * sqrt(all))) {
        fail_msg("%s (%s): the values differ by %.3f of their norm", net->text, isa,
                 sqrt(apart / all));
    }
}

FED_TEST(test_other_nets_are_near) {
    const char *text;
    for (size_t k = 0; (text = net_case_text(k)) != NULL; k++) {
        net_case net;
        net_case_make(&net, text);
        if (!keeps_whole_numbers(&net.arch)) {
            compare(&net, NET_CASE_BATCH, assert_near);
        }
        net_case_free(&net);
    }
}
