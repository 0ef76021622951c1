/*
 * Speed and size of every codec, as ratios to memcpy and to e[i] += g[i] on as many values in the
 * same run: absolute times of a shared machine say little. A ratio of 0.5 is half its speed. Beside
 * them goals, plain loops and general lossless compressors. What is printed is Markdown.
 *
 *     bench_codecs                                     the three sizes that goals are set for
 *     bench_codecs VALUES [ROUNDS [SETTING...]]        one size; all settings, or just these
 *     bench_codecs --tensors FILE [SETTING...]         your own gradients, tensor by tensor
 *
 * A setting is a codec's spec, or one with " dense" behind it: gradients of a bell curve, of which
 * 3lc sends more. FILE is safetensors or raw float32; given more often, with as many gradients in
 * turn. --unit NAME takes the library's code for one unit of the processor: plain, avx2, avx512.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fedcodec/envelope.h"
#include "goals.h"
#include "gradients.h"
#include "peers.h"
#include "plain_loops.h"

/* What is measured by default, and every codec that is not among it with its presets. */
static const char *const settings[] = {
    "3lc:s=1 dense", "3lc:s=1",    "3lc:s=1.75",          "3lc:s=1.75+runs", "3lc:s=1+zstd",
    "sbc:p=0.1",     "sbc:p=0.01", "sbc:p=0.01,pos=auto", "sbc:p=0.001",     "topk:p=0.05",
    "topk:p=0.25",   "trunc:b=16", "trunc:b=22",          "trunc:b=24",      "twobit:t=0.002"};

/* The plain loops that do the same, and how many times as fast as they a codec is meant to be. */
static const struct {
    const char *setting;
    plain_encode *encode;
    double goal;
} loops[] = {
    {"3lc:s=1 dense", plain_3lc, 4.0}, {"3lc:s=1", plain_3lc, 4.0},
    {"3lc:s=1.75", plain_3lc, 4.0},    {"sbc:p=0.01", plain_sbc, 15.0},
    {"sbc:p=0.001", plain_sbc, 15.0},  {"twobit:t=0.002", plain_twobit, 3.0},
};

enum { NO_LOOP = sizeof loops / sizeof loops[0] };

static const char dense[] = " dense";

/* ---- What is measured with ---- */

typedef struct bench {
    gradients gradients;
    bool files, dense; /* the gradients' kind */
    size_t n, rounds;
    float *e, *before, *y; /* the residual, a copy of it, decoded values */
    int64_t *acc;
    bench_times copy, add; /* the medians of all settings */
} bench;

static void bench_start(bench *b, size_t n, size_t rounds) {
    b->n = n;
    b->rounds = rounds;
    b->e = bench_alloc(n * sizeof *b->e);
    b->before = bench_alloc(n * sizeof *b->before);
    b->y = bench_alloc(n * sizeof *b->y + 8); /* the plain loops take it as scratch memory */
    b->acc = bench_alloc(n * sizeof *b->acc);
}

static void bench_end(bench *b) {
    gradients_free(&b->gradients);
    free(b->e);
    free(b->before);
    free(b->y);
    free(b->acc);
}

static const float *gradient(const bench *b, size_t round) {
    return b->gradients.g[round % b->gradients.count];
}

/* See to it that the gradients are of that kind, unless they are the user's. */
static void draw(bench *b, bool wants_dense) {
    if (!b->files && (b->gradients.drawn == NULL || b->dense != wants_dense)) {
        gradients_free(&b->gradients);
        gradients_draw(&b->gradients, b->n, wants_dense);
        b->dense = wants_dense;
    }
}

/* ---- One message ---- */

typedef struct message {
    const char *setting;
    fedcodec codec;
    const fed_layout *layout;
    bool alone; /* one tensor and no second stage: the codec's calls, without an envelope */
    void *work;
    uint8_t *dst;
    size_t cap, len;
} message;

static void message_start(message *m, const char *setting, const fedcodec *codec,
                          const fed_layout *layout) {
    *m = (message){.setting = setting, .codec = *codec, .layout = layout};
    m->alone = layout->count == 1 && codec->stage == 0;
    m->cap =
        m->alone ? fedcodec_bound(codec, layout->size) : fedcodec_envelope_bound(codec, layout, 0);
    m->work = bench_alloc(m->alone ? fedcodec_work_size(codec, layout->size)
                                   : fedcodec_envelope_work_size(codec, layout, 0));
    m->dst = bench_alloc(m->cap);
}

static void message_end(message *m) {
    free(m->dst);
    free(m->work);
}

static void encode(message *m, float *e, const float *g) {
    fed_writer w;
    fed_writer_fixed(&w, m->dst, m->cap);
    fed_status status =
        m->alone
            ? fedcodec_encode(&m->codec, e, g, m->layout->size, m->work, m->dst, m->cap, &m->len)
            : fedcodec_envelope_encode(&m->codec, m->layout, 0, e, g, m->work, &w);
    bench_require(status, m->setting);
    m->len = m->alone ? m->len : w.len;
}

static void decode(const message *m, float *y) {
    bench_require(m->alone ? fedcodec_decode(m->codec.vtable, m->dst, m->len, y, m->layout->size)
                           : fedcodec_envelope_decode(m->dst, m->len, m->layout, y, NULL),
                  m->setting);
}

static void axpy(const message *m, float *y) {
    bench_require(m->alone
                      ? fedcodec_axpy(m->codec.vtable, m->dst, m->len, 0.5f, y, m->layout->size)
                      : fedcodec_envelope_axpy(m->dst, m->len, m->layout, 0.5f, y, NULL),
                  m->setting);
}

static void fold(const message *m, int64_t *acc) {
    bench_require(m->alone ? fedcodec_fold(m->codec.vtable, m->dst, m->len, 8, acc, m->layout->size)
                           : fedcodec_envelope_fold(m->dst, m->len, m->layout, 8, acc, NULL),
                  m->setting);
}

/* ---- A setting ---- */

enum { WARM_ROUNDS = 8 }; /* not measured: the residual fills */

typedef struct result {
    double copy_s, add_s, loop_s, op_s[BENCH_OPS];
    double bytes;
    size_t loop; /* of `loops`, or NO_LOOP */
} result;

static size_t find_loop(const bench *b, const char *setting) {
    size_t k = 0;
    while (k < NO_LOOP && (b->files || strcmp(loops[k].setting, setting) != 0)) {
        k++;
    }
    return k;
}

/* The plain loop, from the residual that the codec is about to start from: it has to make the same
 * message. Before all else of the round, so that the codec does not find its values in a cache. */
static size_t run_loop(bench *b, const message *m, size_t loop, const float *g, uint8_t *dst,
                       bench_times *times) {
    size_t len = 0;
    memcpy(b->before, b->e, b->n * sizeof *b->e);
    BENCH_TIME(times, len = loops[loop].encode(m->codec.param[0], b->before, g, b->n, b->y, dst));
    return len;
}

static result measure(bench *b, message *m) {
    static bench_times copy, add, loop, op[BENCH_OPS];
    copy.count = add.count = loop.count = 0;
    for (size_t k = 0; k < BENCH_OPS; k++) {
        op[k].count = 0;
    }
    result r = {.loop = find_loop(b, m->setting)};
    uint8_t *expected = bench_alloc(r.loop != NO_LOOP ? m->cap : 0);
    memset(b->e, 0, b->n * sizeof *b->e);
    for (size_t round = 0; round < WARM_ROUNDS; round++) {
        encode(m, b->e, gradient(b, round));
    }
    for (size_t round = 0; round < b->rounds; round++) {
        const float *g = gradient(b, WARM_ROUNDS + round);
        size_t expected_len = 0;
        if (r.loop != NO_LOOP) {
            expected_len = run_loop(b, m, r.loop, g, expected, &loop);
        }
        BENCH_TIME(&copy, memcpy(b->y, g, b->n * sizeof *g));
        BENCH_TIME(&add, bench_add(b->y, g, b->n));
        BENCH_TIME(&op[BENCH_ENCODE], encode(m, b->e, g));
        BENCH_TIME(&op[BENCH_DECODE], decode(m, b->y));
        BENCH_TIME(&op[BENCH_AXPY], axpy(m, b->y));
        BENCH_TIME(&op[BENCH_FOLD], fold(m, b->acc));
        bool same =
            r.loop == NO_LOOP || (m->len == expected_len && memcmp(m->dst, expected, m->len) == 0);
        bench_require(same ? FED_OK : FED_EFORMAT, "not the plain loop's message");
        r.bytes += (double)m->len / (double)b->rounds;
    }
    free(expected);
    r.copy_s = bench_median_s(&copy);
    r.add_s = bench_median_s(&add);
    r.loop_s = bench_median_s(&loop);
    for (size_t k = 0; k < BENCH_OPS; k++) {
        r.op_s[k] = bench_median_s(&op[k]);
    }
    return r;
}

/* ---- The table ---- */

static const char *verdict(bool met, bool near) {
    return met ? "met" : near ? "near" : "missed";
}

/* "0.70/0.62 met" */
static void print_goal(goal want, double copy, double add) {
    char text[40] = "", second[16] = "";
    bool met = copy >= want.copy || (want.add > 0.0 && add >= want.add);
    bool near = copy >= GOAL_NEAR * want.copy || (want.add > 0.0 && add >= GOAL_NEAR * want.add);
    if (want.add > 0.0) {
        snprintf(second, sizeof second, "/%.2f", want.add);
    }
    if (want.copy > 0.0) {
        snprintf(text, sizeof text, "%.2f%s %s", want.copy, second, verdict(met, near));
    }
    printf(" %-16s |", text);
}

static void print_loop(const result *r) {
    char text[40] = "";
    if (r->loop != NO_LOOP) {
        double ratio = r->loop_s / r->op_s[BENCH_ENCODE], want = loops[r->loop].goal;
        snprintf(text, sizeof text, "%.1f (%.0f %s)", ratio, want,
                 verdict(ratio >= want, ratio >= GOAL_NEAR * want));
    }
    printf(" %-16s |", text);
}

static void print_head(void) {
    printf(
        "\n| %-19s | %-6s | bit/value | encode |  e+=g | %-16s | %-16s | decode |  e+=g | %-16s |"
        "   axpy |  e+=g | %-16s |   fold |\n",
        "setting", "unit", "goal", "plain loops", "goal", "goal");
    puts("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
}

static void print_row(const bench *b, const char *setting, const char *unit, const result *r) {
    printf("| %-19s | %-6s | %9.4f |", setting, unit, 8.0 * r->bytes / (double)b->n);
    for (bench_op op = BENCH_ENCODE; op < BENCH_FOLD; op++) {
        double copy = r->copy_s / r->op_s[op], add = r->add_s / r->op_s[op];
        printf(" %6.2f | %5.2f |", copy, add);
        print_goal(goal_find(setting, unit, op, b->n), copy, add);
        if (op == BENCH_ENCODE) {
            print_loop(r);
        }
    }
    printf(" %6.2f |\n", r->copy_s / r->op_s[BENCH_FOLD]);
    fflush(stdout);
}

/* Of the setting's spec, which ends where " dense" begins. */
static fed_status parse(const char *setting, fedcodec *codec, fed_error *err) {
    char spec[FEDCODEC_SPEC];
    size_t len = strcspn(setting, " ");
    snprintf(spec, sizeof spec, "%.*s", (int)(len < sizeof spec ? len : sizeof spec - 1), setting);
    return fedcodec_parse(spec, codec, err);
}

static bool is_dense(const char *setting) {
    return strcmp(setting + strcspn(setting, " "), dense) == 0;
}

static void bench_setting(bench *b, const char *setting) {
    fedcodec codec;
    fed_error err;
    if (parse(setting, &codec, &err) != FED_OK) {
        printf("| %-19s | left out: %s |\n", setting, err.text);
        return;
    }
    draw(b, is_dense(setting));
    message m;
    message_start(&m, setting, &codec, &b->gradients.layout);
    result r = measure(b, &m);
    b->copy.s[b->copy.count++] = r.copy_s;
    b->add.s[b->add.count++] = r.add_s;
    print_row(b, setting, "", &r);
    message_end(&m);
}

static bool is_among_settings(const char *name) {
    size_t len = strlen(name);
    for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++) {
        if (strncmp(settings[k], name, len) == 0 && settings[k][len] == ':') {
            return true;
        }
    }
    return false;
}

static void bench_all(bench *b) {
    for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++) {
        if (!b->files || !is_dense(settings[k])) {
            bench_setting(b, settings[k]);
        }
    }
    for (size_t k = 0; fedcodec_at(k) != NULL; k++) {
        if (!is_among_settings(fedcodec_at(k)->name)) {
            bench_setting(b, fedcodec_at(k)->name);
        }
    }
}

/* ---- Lossless compressors ---- */

enum { PEERS_MAX = 4, PEER_ROUNDS = 5 };

static void print_peers_head(void) {
    printf("\n| %-22s | %10s |", "input", "bytes");
    for (size_t k = 0; peer_at(k) != NULL; k++) {
        printf(" %7s: smaller |   pack | unpack |", peer_at(k)->name);
    }
    printf("\n|---|---|");
    for (size_t k = 0; peer_at(k) != NULL; k++) {
        printf("---|---|---|");
    }
    putchar('\n');
}

static void bench_peers_on(bench *b, const char *input, const uint8_t *src, size_t len) {
    static bench_times copy, pack[PEERS_MAX], unpack[PEERS_MAX];
    size_t packed[PEERS_MAX] = {0}, cap = 0;
    copy.count = 0;
    for (size_t k = 0; peer_at(k) != NULL; k++) {
        pack[k].count = unpack[k].count = 0;
        cap = peer_at(k)->bound(len) > cap ? peer_at(k)->bound(len) : cap;
    }
    uint8_t *dst = bench_alloc(cap), *back = bench_alloc(len);
    for (size_t round = 0; round < PEER_ROUNDS; round++) {
        BENCH_TIME(&copy, memcpy(b->y, gradient(b, round), b->n * sizeof *b->y));
        for (size_t k = 0; peer_at(k) != NULL; k++) {
            bool well = false;
            BENCH_TIME(&pack[k], packed[k] = peer_at(k)->pack(src, len, dst, cap));
            BENCH_TIME(&unpack[k], well = peer_at(k)->unpack(dst, packed[k], back, len));
            bench_require(well ? FED_OK : FED_EFORMAT, peer_at(k)->name);
        }
    }
    free(dst);
    free(back);
    double copy_s = bench_median_s(&copy);
    printf("| %-22s | %10zu |", input, len);
    for (size_t k = 0; peer_at(k) != NULL; k++) {
        printf(" %16.3f | %6.2f | %6.2f |", (double)len / (double)packed[k],
               copy_s / bench_median_s(&pack[k]), copy_s / bench_median_s(&unpack[k]));
    }
    putchar('\n');
    fflush(stdout);
}

/* On the floats, and on what 3lc makes of them with and without its zero-run encoding. */
static void bench_peers(bench *b) {
    static const char *const inputs[] = {"3lc:s=1,zre=0", "3lc:s=1", "3lc:s=1.75,zre=0",
                                         "3lc:s=1.75"};
    draw(b, false);
    print_peers_head();
    bench_peers_on(b, "the gradient", (const uint8_t *)gradient(b, 0), b->n * sizeof(float));
    for (size_t k = 0; k < sizeof inputs / sizeof inputs[0]; k++) {
        fedcodec codec;
        message m;
        if (parse(inputs[k], &codec, NULL) == FED_OK) {
            message_start(&m, inputs[k], &codec, &b->gradients.layout);
            memset(b->e, 0, b->n * sizeof *b->e);
            for (size_t round = 0; round < WARM_ROUNDS; round++) {
                encode(&m, b->e, gradient(b, round));
            }
            bench_peers_on(b, inputs[k], m.dst, m.len);
            message_end(&m);
        }
    }
}

/* ---- Sizes, and the command line ---- */

static void print_legend(void) {
    puts("# Codecs\n\n"
         "Speeds are ratios to memcpy of as many float32 values in the same rounds, medians; "
         "\"e+=g\"\n"
         "is the ratio to e[i] += g[i]. Each setting encodes with error feedback; decoders check\n"
         "first; axpy is decode and add, fold the same in fixed point.\n\n"
         "A goal is a ratio to memcpy, the one behind \"/\" to e[i] += g[i]: either will do. met; "
         "near:\n"
         "within the 10 % that goals allow for noise; missed. Plain loops: how many times as fast\n"
         "encode is, and its goal.");
    if (peers_missing[0] != '\0') {
        printf("\nWithout some lossless compressors, which deploy/setup.sh --bench installs:%s\n",
               peers_missing);
    }
}

static size_t default_rounds(size_t n) {
    return n <= 1000000 ? 61 : n <= 20000000 ? 15 : 7;
}

static void bench_size(bench *b, size_t n, size_t rounds, char **chosen) {
    bench_start(b, n, rounds);
    printf("\n## %zu values, %zu rounds\n", n, rounds);
    print_head();
    for (char **setting = chosen; *setting != NULL; setting++) {
        bench_setting(b, *setting);
    }
    if (*chosen == NULL) {
        bench_all(b);
    }
    double copy = bench_median_s(&b->copy), add = bench_median_s(&b->add);
    printf("\nmemcpy took %.3f ms (%.1f GB/s), e[i] += g[i] %.3f ms.\n", 1e3 * copy,
           4e-9 * (double)n / copy, 1e3 * add);
    if (*chosen == NULL) {
        bench_peers(b);
    }
    bench_end(b);
}

static int usage(void) {
    fprintf(stderr,
            "usage: bench_codecs [VALUES [ROUNDS, up to %d [SETTING...]]]\n"
            "       bench_codecs --tensors FILE [--tensors FILE]... [SETTING...]\n",
            BENCH_ROUNDS_MAX);
    return 2;
}

static int bench_files(char **argv) {
    const char *paths[GRADIENTS_MAX];
    size_t count = 0;
    for (; *argv != NULL && strcmp(*argv, "--tensors") == 0; argv += 2) {
        if (argv[1] == NULL || count == GRADIENTS_MAX) {
            return usage();
        }
        paths[count++] = argv[1];
    }
    bench b = {.files = true};
    gradients_read(&b.gradients, paths, count);
    print_legend();
    bench_size(&b, b.gradients.layout.size, default_rounds(b.gradients.layout.size), argv);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--tensors") == 0) {
        return bench_files(argv + 1);
    }
    size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : default_rounds(n);
    if (n == 0 || n > UINT32_MAX || rounds == 0 || rounds > BENCH_ROUNDS_MAX) {
        return usage();
    }
    print_legend();
    for (size_t k = 0; k < (argc > 1 ? 1 : GOAL_SIZES); k++) {
        bench b = {.files = false};
        size_t values = argc > 1 ? n : goal_sizes[k];
        bench_size(&b, values, argc > 2 ? rounds : default_rounds(values),
                   argc > 3 ? argv + 3 : argv + argc);
    }
    return EXIT_SUCCESS;
}
