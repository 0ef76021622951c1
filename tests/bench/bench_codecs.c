/*
 * Speed and size of every codec, as ratios to memcpy and to e[i] += g[i] on the same values in the
 * same run: absolute times of a shared machine say little. A ratio of 0.5 is half its speed.
 *
 *     bench_codecs [VALUES [ROUNDS]]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fed/rng.h"
#include "fedcodec/codec.h"

enum { ROUNDS_MAX = 1000 };

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

typedef struct samples {
    double s[ROUNDS_MAX];
    size_t count;
} samples;

static double median(samples *t) {
    qsort(t->s, t->count, sizeof *t->s, ascending);
    return t->s[t->count / 2];
}

#define TIME(t, work)                                                                              \
    do {                                                                                           \
        double start_ = now_s();                                                                   \
        work;                                                                                      \
        (t).s[(t).count++] = now_s() - start_;                                                     \
    } while (0)

static void *make(size_t bytes) {
    void *memory = calloc(1, bytes + 1);
    if (memory == NULL) {
        fputs("bench_codecs: out of memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    return memory;
}

static void require(fed_status status) {
    if (status != FED_OK) {
        fprintf(stderr, "bench_codecs: %s\n", fed_status_name(status));
        exit(EXIT_FAILURE);
    }
}

/* Gradients are nearer to Laplace than to Gauss. */
static void fill_laplace(float *x, size_t n) {
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < n; i++) {
        float u = fed_rng_float(&rng) - 0.5f;
        x[i] = copysignf(1e-3f * logf(1.0f - 2.0f * fabsf(u) + 1e-7f), u);
    }
}

static void add(float *e, const float *g, size_t n) {
    for (size_t i = 0; i < n; i++) {
        e[i] += g[i];
    }
}

/* A different gradient each round costs nothing: begin at another place. */
typedef struct data {
    float *g, *e, *y;
    int64_t *acc;
    size_t n, rounds;
} data;

static const float *gradient(const data *d, size_t round) {
    return d->g + round * 977 % d->n;
}

static void bench(const char *spec, const data *d) {
    fedcodec codec;
    require(fedcodec_parse(spec, &codec, NULL));
    size_t cap = fedcodec_bound(&codec, d->n), len = 0;
    uint8_t *dst = make(cap);
    void *work = make(fedcodec_work_size(&codec, d->n));
    samples copy = {.count = 0}, axpy = copy, encode = copy, decode = copy, apply = copy,
            fold = copy;
    double bytes = 0.0;
    memset(d->e, 0, d->n * sizeof *d->e);
    for (size_t round = 0; round < d->rounds; round++) {
        const float *g = gradient(d, round);
        TIME(copy, memcpy(d->y, g, d->n * sizeof *g));
        TIME(axpy, add(d->y, g, d->n));
        TIME(encode, require(fedcodec_encode(&codec, d->e, g, d->n, work, dst, cap, &len)));
        TIME(decode, require(fedcodec_decode(codec.vtable, dst, len, d->y, d->n)));
        TIME(apply, require(fedcodec_axpy(codec.vtable, dst, len, 0.5f, d->y, d->n)));
        TIME(fold, require(fedcodec_fold(codec.vtable, dst, len, 8, d->acc, d->n)));
        bytes += (double)len / (double)d->rounds;
    }
    double c = median(&copy), a = median(&axpy), e = median(&encode);
    printf("%-13s %8.3f %7.2f %7.2f   %8.3f %7.2f   %8.3f %7.2f   %8.3f   %9.1f %9.4f\n", spec,
           1e3 * e, c / e, a / e, 1e3 * median(&decode), c / median(&decode), 1e3 * median(&apply),
           c / median(&apply), 1e3 * median(&fold), bytes, 8.0 * bytes / (double)d->n);
    free(dst);
    free(work);
}

int main(int argc, char **argv) {
    static const char *const specs[] = {"float32",    "3lc:s=1",     "3lc:s=1.75",  "sbc:p=0.1",
                                        "sbc:p=0.01", "sbc:p=0.001", "dgc:p=0.001", "stc:p=0.01"};
    data d = {.n = argc > 1 ? strtoul(argv[1], NULL, 10) : 431080,
              .rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 100};
    if (d.n == 0 || d.n > UINT32_MAX || d.rounds == 0 || d.rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_codecs [VALUES [ROUNDS up to %d]]\n", ROUNDS_MAX);
        return 2;
    }
    d.g = make(2 * d.n * sizeof *d.g);
    d.e = make(d.n * sizeof *d.e);
    d.y = make(d.n * sizeof *d.y);
    d.acc = make(d.n * sizeof *d.acc);
    fill_laplace(d.g, 2 * d.n);
    printf("%zu values, medians of %zu rounds with error feedback; decoders check first\n", d.n,
           d.rounds);
    printf("%-13s %8s %7s %7s   %8s %7s   %8s %7s   %8s   %9s %9s\n", "codec", "encode", "/memcpy",
           "/e+=g", "decode", "/memcpy", "axpy", "/memcpy", "fold", "bytes", "bit/value");
    printf("%-13s %8s %7s %7s   %8s %7s   %8s %7s   %8s\n", "", "ms", "", "", "ms", "", "ms", "",
           "ms");
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        bench(specs[k], &d);
    }
    free(d.g);
    free(d.e);
    free(d.y);
    free(d.acc);
    return 0;
}
