/* Measure how fast a GPU encodes, decodes and trains, compared with copies in its memory. Prints
 * JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "codecs/registry.h"
#include "fed/arch.h"
#include "fedcodec/gpu_codecs.h"
#include "fedtrain/net.h"
#include "fedtrain/optimizer.h"

/*
 *     bench_gpu DEVICE [MOST [BATCH [SECONDS]]]
 *
 * It measures codecs with up to 2^MOST values (default 2^26), and training steps with batches of
 * BATCH samples (128). After SECONDS (240) the rest is left out, and "cut_short" is true. Times are
 * medians over rounds of calls. "encode_ratio" and "add_ratio": bytes per second that the codec
 * reads and writes, by tests/support/gpu_traffic.def, divided by those of a copy on the device.
 * "encode_of_plain_c": the speed of encoding divided by that of plain C on one core.
 */
enum { ROUNDS = 5, MOST_CALLS = 200, PATTERN = 1 << 20, STEPS = 5 };

static const double round_s = 0.02;

typedef struct bench {
    fed_gpu *gpu;
    fed_gpu_stream *stream;
    double until_s, copy_rate; /* copy_rate: bytes per second that a copy reads and writes */
    float *pattern;            /* float32[PATTERN], on the host */
    size_t most, batch;
    size_t lines;
} bench;

typedef struct measured {
    const char *spec;
    double encode_bytes, add_bytes;
} measured;

static const measured all[] = {
#define FED_GPU_TRAFFIC(spec, encode, add) {spec, encode, add},
#include "gpu_traffic.def"
#undef FED_GPU_TRAFFIC
};

static void require(const bench *b, fed_status status, const char *what) {
    fed_error err = {0};
    bench_require(status, fed_gpu_explain(b->gpu, status, &err) == FED_OK ? what : err.text);
}

static const char *comma(bench *b) {
    return b->lines++ > 0 ? ",\n" : "\n";
}

static bool late(const bench *b) {
    return bench_now_s() > b->until_s;
}

typedef struct job {
    fedcodec codec;
    fedcodec_gpu *on_gpu;
    size_t n, cap;
    float *x, *residual;
    uint8_t *message;
    void *work;
    fedcodec_gpu_head *head;
    fed_gpu_graph *graph;
} job;

typedef fed_status call(bench *b, const job *j);

static double time_calls(bench *b, const job *j, call *work, size_t calls) {
    const double start = bench_now_s();
    for (size_t k = 0; k < calls; k++) {
        require(b, work(b, j), "a call");
    }
    require(b, fed_gpu_sync(b->stream), "sync");
    return (bench_now_s() - start) / (double)calls;
}

static double median_of(bench *b, const job *j, call *work) {
    bench_times times = {.count = 0};
    (void)time_calls(b, j, work, 1);
    const double once = time_calls(b, j, work, 1);
    const double calls = fmin(fmax(round_s / once, 1), MOST_CALLS);
    while (times.count < ROUNDS) {
        times.s[times.count++] = time_calls(b, j, work, (size_t)calls);
    }
    return bench_median_s(&times);
}

static fed_status copy(bench *b, const job *j) {
    return fed_gpu_copy(b->stream, j->residual, j->x, j->n * sizeof *j->x, FED_GPU_ACROSS);
}

static fed_status encode(bench *b, const job *j) {
    const bool feedback = fedcodec_has_feedback(j->codec.vtable);
    return fedcodec_gpu_encode(j->on_gpu, b->stream, feedback ? j->residual : NULL, j->x, j->n,
                               j->work, j->message, j->cap, j->head);
}

static fed_status add(bench *b, const job *j) {
    return fedcodec_gpu_axpy(j->on_gpu, b->stream, j->message, j->cap, j->head, 1e-3F, j->x, j->n,
                             j->work);
}

static fed_status replay(bench *b, const job *j) {
    return fed_gpu_replay(b->stream, j->graph);
}

static void *on_device(bench *b, size_t size) {
    void *at = NULL;
    require(b, fed_gpu_alloc(b->gpu, size, &at), "alloc");
    return at;
}

static void upload_pattern(bench *b, float *to, size_t n) {
    for (size_t at = 0; at < n; at += PATTERN) {
        const size_t count = n - at < PATTERN ? n - at : PATTERN;
        require(b, fed_gpu_copy(b->stream, to + at, b->pattern, count * sizeof *to, FED_GPU_UP),
                "copy");
    }
}

static void start_job(bench *b, job *j, const char *spec, size_t n) {
    fed_error err = {0};
    *j = (job){.n = n};
    bench_require(fedcodec_parse(spec, &j->codec, &err), err.text);
    bench_require(fedcodec_gpu_new(b->gpu, &j->codec, &j->on_gpu, &err), err.text);
    j->cap = fedcodec_bound(&j->codec, n);
    j->x = on_device(b, n * sizeof *j->x);
    j->residual = on_device(b, n * sizeof *j->x);
    j->message = on_device(b, j->cap);
    j->work = on_device(b, fedcodec_gpu_work_size(j->on_gpu, n));
    j->head = on_device(b, sizeof *j->head);
    require(b, fed_gpu_fill(b->stream, j->residual, 0, n * sizeof *j->x), "fill");
    upload_pattern(b, j->x, n);
    require(b, fed_gpu_sync(b->stream), "sync");
}

static void end_job(bench *b, job *j) {
    require(b, fed_gpu_sync(b->stream), "sync");
    void *const memory[] = {j->x, j->residual, j->message, j->work, j->head};
    for (size_t k = 0; k < sizeof memory / sizeof memory[0]; k++) {
        fed_gpu_free(b->gpu, memory[k]);
    }
    fed_gpu_graph_free(j->graph);
    fedcodec_gpu_free(j->on_gpu);
}

static double plain_encode_s(const bench *b, const job *j, const char *spec) {
    fedcodec codec = j->codec;
    const fedcodec_unit *unit = NULL;
    for (size_t k = 0; (unit = fedcodec_unit_at(k)) != NULL && strcmp(unit->name, "plain") != 0;) {
        k++;
    }
    for (size_t k = 0; unit != NULL && k < FEDCODEC_COUNT; k++) {
        if (strcmp(fedcodec_name(unit->codecs[k]), fedcodec_name(j->codec.vtable)) == 0) {
            codec.vtable = unit->codecs[k];
        }
    }
    bench_times times = {.count = 0};
    float *residual = bench_alloc(j->n * sizeof *residual);
    uint8_t *message = bench_alloc(j->cap + 1);
    void *work = bench_alloc(fedcodec_work_size(&codec, j->n) + 1);
    float *feedback = fedcodec_has_feedback(codec.vtable) ? residual : NULL;
    size_t len = 0;
    while (times.count < ROUNDS) {
        BENCH_TIME(&times, bench_require(fedcodec_encode(&codec, feedback, b->pattern, j->n, work,
                                                         message, j->cap, &len),
                                         spec));
    }
    free(residual);
    free(message);
    free(work);
    return bench_median_s(&times);
}

static void bench_codec(bench *b, const measured *m, size_t n) {
    job j;
    fedcodec_gpu_head head;
    start_job(b, &j, m->spec, n);
    const double encode_s = median_of(b, &j, encode), values = (double)n;
    require(b, fed_gpu_copy(b->stream, &head, j.head, sizeof head, FED_GPU_DOWN), "copy");
    const double add_s = median_of(b, &j, add);
    printf("%s    {\"codec\": \"%s\", \"values\": %zu, \"message_bytes_a_value\": %.4f, "
           "\"encode_us\": %.1f, \"encode_ratio\": %.3f, \"add_us\": %.1f, \"add_ratio\": %.3f",
           comma(b), m->spec, n, head.len / values, 1e6 * encode_s,
           m->encode_bytes * values / encode_s / b->copy_rate, 1e6 * add_s,
           m->add_bytes * values / add_s / b->copy_rate);
    if (n == PATTERN) {
        printf(", \"encode_of_plain_c\": %.2f", plain_encode_s(b, &j, m->spec) / encode_s);
    }
    printf("}");
    end_job(b, &j);
}

static void bench_size(bench *b, size_t n) {
    job j;
    start_job(b, &j, "float32", n);
    const double copy_s = median_of(b, &j, copy);
    end_job(b, &j);
    b->copy_rate = 8.0 * (double)n / copy_s;
    printf("%s    {\"copy\": true, \"values\": %zu, \"us\": %.1f, \"gb_a_second\": %.1f}", comma(b),
           n, 1e6 * copy_s, b->copy_rate / 1e9);
    for (size_t k = 0; k < sizeof all / sizeof all[0] && !late(b); k++) {
        bench_codec(b, &all[k], n);
    }
}

static void bench_codecs(bench *b) {
    static const unsigned sizes[] = {16, 20, 24, 26, 28};
    printf(",\n  \"codecs\": [");
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        const size_t n = (size_t)1 << sizes[k];
        const bool fits = n * sizeof(float) * 6 < fed_gpu_info_of(b->gpu)->memory;
        if (sizes[k] <= b->most && fits && !late(b)) {
            bench_size(b, n);
        }
    }
    printf("\n  ]");
}

static void bench_graph(bench *b) {
    job j;
    start_job(b, &j, "3lc:s=1.75", PATTERN);
    const double calls_s = median_of(b, &j, encode);
    require(b, fed_gpu_keep(b->stream), "keep");
    require(b, encode(b, &j), "encode");
    require(b, fed_gpu_kept(b->stream, &j.graph), "kept");
    const double graph_s = median_of(b, &j, replay);
    printf(",\n  \"graph\": {\"codec\": \"3lc:s=1.75\", \"values\": %d, \"calls_us\": %.1f, "
           "\"graph_us\": %.1f}",
           PATTERN, 1e6 * calls_s, 1e6 * graph_s);
    end_job(b, &j);
}

typedef struct net_job {
    fed_arch arch;
    fed_optimizer rule;
    fedtrain_net *net;
    float *params, *state, *x;
    uint32_t *label;
    size_t states;
} net_job;

static double time_steps(const bench *b, net_job *j, size_t steps, float *loss) {
    const fedtrain_batch batch = {.size = b->batch, .x = j->x, .label = j->label};
    fed_error err = {0};
    const double start = bench_now_s();
    for (size_t k = 0; k < steps; k++) {
        bench_require(fedtrain_net_step(j->net, &j->rule, j->params, j->state, &batch, loss, &err),
                      err.text);
    }
    return (bench_now_s() - start) / (double)steps;
}

static void time_net(bench *b, net_job *j, const char *name) {
    bench_times times = {.count = 0};
    fed_error err = {0};
    float loss = 0;
    bench_require(fedtrain_net_begin(j->net, j->params, j->state, j->states, &err), err.text);
    const double once = time_steps(b, j, 2, &loss);
    const double steps = fmin(fmax(round_s / once, 1), MOST_CALLS);
    while (times.count < STEPS && (times.count == 0 || !late(b))) {
        times.s[times.count++] = time_steps(b, j, (size_t)steps, &loss);
    }
    bench_require(fedtrain_net_end(j->net, j->params, j->state, &err), err.text);
    const double step_s = bench_median_s(&times);
    printf("%s    {\"net\": \"%s\", \"batch\": %zu, \"step_ms\": %.3f, \"samples_a_second\": %.0f, "
           "\"loss\": %.4f}",
           comma(b), name, b->batch, 1e3 * step_s, (double)b->batch / step_s, (double)loss);
}

static void bench_net(bench *b, const char *name) {
    net_job j = {.net = NULL};
    fed_error err = {0};
    bench_require(fed_arch_parse(name, &j.arch, &err), err.text);
    bench_require(fed_optimizer_parse("sgd", 0.01F, &j.rule, &err), err.text);
    if (fedtrain_net_new(&j.arch, b->batch, fed_gpu_info_of(b->gpu)->name, &j.net, &err) !=
        FED_OK) {
        printf("%s    {\"net\": \"%s\", \"left_out\": \"%s\"}", comma(b), name, err.text);
    } else {
        const size_t values = (size_t)j.arch.input.c * j.arch.input.h * j.arch.input.w;
        const size_t params = j.arch.layout.size;
        j.states = fedtrain_optimizer_state_size(&j.rule, params);
        j.params = bench_alloc(params * sizeof *j.params);
        j.state = bench_alloc((j.states + 1) * sizeof *j.state);
        j.x = bench_alloc(b->batch * values * sizeof *j.x);
        j.label = bench_alloc(b->batch * sizeof *j.label);
        fed_arch_init_values(&j.arch, 1, j.params);
        for (size_t i = 0; i < b->batch * values; i++) {
            j.x[i] = 50.0F * b->pattern[i % PATTERN];
        }
        for (size_t i = 0; i < b->batch; i++) {
            j.label[i] = (uint32_t)(i % 10);
        }
        time_net(b, &j, name);
        free(j.params);
        free(j.state);
        free(j.x);
        free(j.label);
        fedtrain_net_free(j.net);
    }
    fed_arch_free(&j.arch);
}

static void bench_nets(bench *b) {
    static const char *const nets[] = {"lenet5-caffe", "resnet20"};
    b->lines = 0;
    printf(",\n  \"nets\": [");
    for (size_t k = 0; k < sizeof nets / sizeof nets[0] && !late(b); k++) {
        bench_net(b, nets[k]);
    }
    printf("\n  ]");
}

static float *make_pattern(void) {
    float *x = bench_alloc(PATTERN * sizeof *x);
    uint64_t seed = 1;
    for (size_t i = 0; i < PATTERN; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const float u = (float)(seed >> 40) * 0x1p-24F - 0.5F;
        x[i] = copysignf(-0.01F * logf(1.0F - 1.9999F * fabsf(u)), u);
    }
    return x;
}

static size_t number(int argc, char **argv, int k, size_t otherwise) {
    return argc > k ? strtoul(argv[k], NULL, 10) : otherwise;
}

int main(int argc, char **argv) {
    bench b = {.most = number(argc, argv, 2, 26), .batch = number(argc, argv, 3, 128)};
    fed_error err = {0};
    if (argc < 2 || b.most < 16 || b.batch < 1 || b.batch > 4096) {
        fprintf(stderr, "usage: bench_gpu DEVICE [MOST [BATCH [SECONDS]]]\n");
        return EXIT_FAILURE;
    }
    b.until_s = bench_now_s() + (double)number(argc, argv, 4, 240);
    bench_require(fed_gpu_open(argv[1], NULL, &b.gpu, &err), err.text);
    require(&b, fed_gpu_stream_new(b.gpu, NULL, &b.stream), "stream");
    b.pattern = make_pattern();
    const fed_gpu_info *info = fed_gpu_info_of(b.gpu);
    printf("{\n  \"device\": \"%s\",\n  \"card\": \"%s\",\n  \"memory\": %llu,\n  \"units\": %u",
           info->name, info->card, (unsigned long long)info->memory, info->units);
    bench_graph(&b);
    bench_nets(&b);
    b.lines = 0;
    bench_codecs(&b);
    printf(",\n  \"cut_short\": %s\n}\n", late(&b) ? "true" : "false");
    free(b.pattern);
    fed_gpu_stream_free(b.stream);
    fed_gpu_close(b.gpu);
    return EXIT_SUCCESS;
}
