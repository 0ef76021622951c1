/* Measures the memory of training. It fails if a net needs other memory than it reports, or if a
 * step allocates any. It prints the tables of docs/client-memory.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/rng.h"
#include "fedclient/train/backends/fast/fast.h"
#include "fedclient/train/net_impl.h"
#include "fedcodec/envelope.h"
#include "fedtrain/train.h"

static const char *const models[] = {"lr", "lenet5-caffe", "hdc", "resnet20", "wordlstm"};
static const size_t batches[] = {2, 8, 32};

enum { MODELS = sizeof models / sizeof models[0], BATCHES = sizeof batches / sizeof batches[0] };

static size_t failures;

/* ---- Allocations: the linker replaces the C library's functions by these ---- */

enum { BLOCKS = 256 };

static struct {
    void *at;
    size_t size;
} blocks[BLOCKS];
static size_t live, peak, calls;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *at);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *at);

static void *count_block(void *at, size_t size) {
    size_t k = 0;
    while (k < BLOCKS && blocks[k].at != NULL) {
        k++;
    }
    if (at == NULL || k == BLOCKS) {
        fputs("memory: out of memory, or more allocations at a time than this test can count\n",
              stderr);
        exit(EXIT_FAILURE);
    }
    blocks[k].at = at;
    blocks[k].size = size;
    live += size;
    peak = live > peak ? live : peak;
    calls++;
    return at;
}

static void forget_block(const void *at) {
    for (size_t k = 0; at != NULL && k < BLOCKS; k++) {
        if (blocks[k].at == at) {
            blocks[k].at = NULL;
            live -= blocks[k].size;
        }
    }
}

void *__wrap_malloc(size_t size) {
    return count_block(__real_malloc(size), size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return count_block(__real_calloc(count, size), count * size);
}

void *__wrap_realloc(void *old, size_t size) {
    forget_block(old);
    return count_block(__real_realloc(old, size), size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return count_block(__real_aligned_alloc(alignment, size), size);
}

void __wrap_free(void *at) {
    forget_block(at);
    __real_free(at);
}

static void must(fed_status status, const fed_error *err) {
    if (status != FED_OK) {
        fprintf(stderr, "memory: %s\n", err->text[0] != '\0' ? err->text : fed_status_text(status));
        exit(EXIT_FAILURE);
    }
}

static void check(const char *model, const char *what, size_t wanted, size_t found) {
    if (wanted != found) {
        failures++;
        fprintf(stderr, "memory: %s: %s: %zu, not %zu\n", model, what, found, wanted);
    }
}

/* Open a net with the narrowest vectors. Returns false if the backend can't run the model. */
static bool open_net(const fed_arch *arch, size_t batch, fedtrain_net **net) {
    if (fedtrain_net_new(arch, batch, "fast", net, NULL) != FED_OK) {
        return false;
    }
    const fedtrain_kernels *kernels = NULL;
    for (size_t k = 0; fedtrain_kernels_get(k) != NULL; k++) {
        kernels = fedtrain_kernels_get(k);
    }
    (*net)->backend->close((*net)->work);
    must(fedtrain_fast_open(arch, batch, kernels, &(*net)->work), &(fed_error){0});
    return true;
}

/* Take a step with each kind of optimizer, which must not allocate. Returns the bytes of the
 * gradient's buffer that sgd writes to. */
static size_t take_steps(const char *model, const fed_arch *arch, fedtrain_net *net, size_t batch) {
    static const char *const specs[] = {"sgd:lr=1e-9", "momentum:lr=1e-9", "adam:lr=1e-9",
                                        "sgd:lr=1e-9+clip:norm=1"};
    const float marker = -0x1.5p77f;
    size_t n = arch->layout.size, values = batch * fedtrain_shape_size(arch->input), written = 0;
    size_t labels = batch * arch->positions;
    float *params = calloc(n, sizeof *params), *state = calloc(2 * n + 1, sizeof *state);
    float *x = calloc(values, sizeof *x);
    uint32_t *label = calloc(labels, sizeof *label);
    fed_arch_init_values(arch, 1, params);
    const fedtrain_batch samples = {.size = batch, .x = x, .label = label, .seed = 1};
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        fed_optimizer rule;
        fed_error err = {0};
        float loss;
        must(fed_optimizer_parse(specs[k], 0, &rule, &err), &err);
        for (size_t i = 0; i < arch->trained; i++) {
            net->grad[i] = marker;
        }
        size_t before = calls;
        must(fedtrain_net_step(net, &rule, params, state, &samples, &loss, &err), &err);
        check(model, "allocations in a step", 0, calls - before);
        for (size_t i = 0; k == 0 && i < arch->trained; i++) {
            written += net->grad[i] != marker ? sizeof marker : 0;
        }
        memset(state, 0, (2 * n + 1) * sizeof *state);
    }
    free(params);
    free(state);
    free(x);
    free(label);
    return written;
}

/* fedtrain_run must allocate only the order of the samples. */
static void take_run(const char *model, const fed_arch *arch, fedtrain_net *net, size_t batch) {
    enum { SAMPLES = 50 };
    static uint8_t pixel[SAMPLES * 784], label[SAMPLES];
    static uint32_t all[SAMPLES];
    for (uint32_t i = 0; i < SAMPLES; i++) {
        all[i] = i;
    }
    fed_error err = {0};
    fedtrain_dataset set;
    must(fedtrain_dataset_wrap(pixel, label, SAMPLES, (fed_shape){1, 28, 28}, &set), &err);
    const fedtrain_shard shard = {.index = all, .count = SAMPLES};
    fedtrain_job job = {.net = net, .set = &set, .shard = &shard, .steps = 3, .batch = batch};
    must(fed_optimizer_parse("sgd:lr=1e-3", 0, &job.optimizer, &err), &err);
    float *params = calloc(arch->layout.size, sizeof *params), loss;
    size_t before = live;
    peak = live;
    must(fedtrain_run(&job, params, NULL, &loss, &err), &err);
    const size_t place = 2 * sizeof(uint64_t);
    check(model, "bytes that a run takes for itself", sizeof all + place, peak - before);
    check(model, "bytes that a run leaves behind", before, live);
    free(params);
    fedtrain_dataset_free(&set);
}

static void print_bytes(size_t bytes) {
    size_t kib = (bytes + 1023) / 1024;
    printf(kib >= 1000 ? " %zu,%03zu |" : " %zu |", kib >= 1000 ? kib / 1000 : kib, kib % 1000);
}

static void print_row(const char *model, const fed_arch *arch, size_t batch,
                      const fedtrain_memory *m, size_t written) {
    size_t weights = arch->layout.size * sizeof(float), n = arch->trained * sizeof(float);
    printf("| `%s` | %zu |", model, batch);
    print_bytes(weights);
    print_bytes(m->parameters);
    print_bytes(written);
    print_bytes(m->activations);
    print_bytes(m->gradients);
    print_bytes(m->batch);
    print_bytes(m->workspace);
    print_bytes(weights + m->total);
    print_bytes(weights + m->total + n);
    print_bytes(weights + m->total + 2 * n + sizeof(float));
    putchar('\n');
}

static void print_model(const char *model) {
    fed_arch arch;
    fed_error err = {0};
    must(fed_arch_parse(model, &arch, &err), &err);
    size_t written = 0;
    for (size_t k = 0; k < BATCHES; k++) {
        fedtrain_net *net;
        size_t before = live;
        if (!open_net(&arch, batches[k], &net)) {
            printf("| `%s` | | has layers that the fast backend lacks |\n", model);
            break;
        }
        const fedtrain_memory m = fedtrain_net_memory(net);
        check(model, "bytes that a net holds", live - before, m.total);
        check(model, "the sum of the parts", m.total,
              m.batch + m.activations + m.gradients + m.parameters + m.workspace);
        if (k == 0) {
            written = take_steps(model, &arch, net, batches[k]);
        }
        if (arch.words == 0 && fedtrain_shape_size(arch.input) == 784) {
            take_run(model, &arch, net, batches[k]);
        }
        print_row(model, &arch, batches[k], &m, written);
        fedtrain_net_free(net);
    }
    fed_arch_free(&arch);
}

static void print_description(const char *model) {
    fed_arch arch;
    fed_error err = {0};
    size_t before = live;
    peak = live;
    must(fed_arch_parse(model, &arch, &err), &err);
    printf("| `%s` | %zu | %zu |", model, arch.layer_count, arch.layout.count);
    print_bytes(live - before);
    print_bytes(peak - before);
    putchar('\n');
    fed_arch_free(&arch);
    check(model, "bytes that a description leaves behind", before, live);
}

static void print_update(const char *model, const char *spec) {
    enum { SMALL_TENSOR = 1024 };
    fed_arch arch;
    fed_error err = {0};
    fedcodec codec;
    must(fed_arch_parse(model, &arch, &err), &err);
    must(fedcodec_parse(spec, &codec, &err), &err);
    codec.unguarded = true;
    size_t n = arch.layout.size;
    float *values = calloc(n, sizeof *values);
    fed_arch_init_values(&arch, 1, values);
    size_t before = live;
    peak = live;
    size_t size = fedcodec_envelope_work_size(&codec, &arch.layout, SMALL_TENSOR);
    void *work = malloc(size + 1);
    fed_writer out;
    fed_writer_growing(&out);
    must(fedcodec_envelope_encode(&codec, &arch.layout, SMALL_TENSOR, values, NULL, work, &out),
         &err);
    printf("| `%s` | `%s` |", model, spec);
    print_bytes(n * sizeof *values);
    print_bytes(size);
    print_bytes(peak - before - size);
    print_bytes(out.len);
    putchar('\n');
    fed_writer_free(&out);
    free(work);
    free(values);
    fed_arch_free(&arch);
}

int main(void) {
    puts("| model | batch | weights | gradient | of it written | activations | their gradients "
         "| samples, scores | workspace | sgd: all | momentum: all | adam: all |");
    puts("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (size_t k = 0; k < MODELS; k++) {
        print_model(models[k]);
    }
    puts("\n| model | layers | tensors | held | while it is parsed |\n|---|---|---|---|---|");
    for (size_t k = 0; k < MODELS; k++) {
        print_description(models[k]);
    }
    puts("\n| model | codec | values | work memory | message's buffer | message |\n"
         "|---|---|---|---|---|---|");
    for (size_t k = 0; k < MODELS; k++) {
        print_update(models[k], "sbc");
        print_update(models[k], "3lc");
    }
    check("all", "bytes at the end", 0, live);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
