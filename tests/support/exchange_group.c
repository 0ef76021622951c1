/* Runs the ranks of a worker group that exchange gradients, for tests. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange_group.h"

#include <float.h>
#include <math.h>

#include "fed/rng.h"
#include "fed_test.h"

static const size_t tensor[] = {1, 300, 17, 1000, 5, 4001, 255, 777, 2};
enum { TENSORS = sizeof tensor / sizeof tensor[0], BUCKET = 4096 };

size_t exchange_size(void) {
    size_t n = 0;
    for (size_t k = 0; k < TENSORS; k++) {
        n += tensor[k];
    }
    return n;
}

void exchange_gradient(uint32_t rank, uint32_t step, float *grad) {
    fed_rng rng;
    fed_rng_init(&rng, 21, step, rank);
    for (size_t i = 0; i < exchange_size(); i++) {
        grad[i] = fed_rng_float(&rng) - 0.5f;
    }
}

static bool is_plain(const exchange_run *run, uint32_t step) {
    return run->plain_every > 0 && step % run->plain_every == run->plain_every - 1;
}

static void make_order(const exchange_entry *entry, uint32_t step, uint32_t order[TENSORS]) {
    fed_rng rng;
    fed_rng_init(&rng, 22, step, entry->place.rank);
    for (uint32_t k = 0; k < TENSORS; k++) {
        order[k] = TENSORS - 1 - k;
    }
    if (entry->run->rough) {
        fed_rng_shuffle(&rng, order, TENSORS);
    }
}

static size_t offset_of(uint32_t k) {
    size_t at = 0;
    while (k-- > 0) {
        at += tensor[k];
    }
    return at;
}

/* Two gradients, because two steps may be under way. */
typedef struct gradients {
    float *host, *put; /* float32[2 * exchange_size()]; put: host, or GPU memory */
} gradients;

static fed_status put(exchange_entry *entry, feddc_exchange *x, uint32_t step, const gradients *g) {
    uint32_t order[TENSORS];
    const size_t slot = step % 2 * exchange_size();
    exchange_gradient(entry->place.rank, step, g->host + slot);
    if (entry->run->poisoned && entry->place.rank == 1 && step == 1) {
        g->host[slot + 2000] = NAN;
    }
    if (entry->run->huge && step == 1) {
        g->host[slot + 2000] = FLT_MAX;
    }
    make_order(entry, step, order);
    for (uint32_t k = 0; k < TENSORS; k++) {
        size_t at = offset_of(order[k]), n = tensor[order[k]];
        if (entry->stream != NULL) {
            FED_TRY(fed_gpu_copy(entry->stream, g->put + slot + at, g->host + slot + at,
                                 n * sizeof(float), FED_GPU_UP));
        }
        feddc_exchange_put(x, step, at, g->put + slot + at, n, is_plain(entry->run, step));
    }
    return FED_OK;
}

typedef struct target {
    exchange_entry *entry;
    float *sums;
} target;

static void keep(void *user, size_t offset, const float *sum, size_t n) {
    const target *t = user;
    if (t->entry->stream == NULL) {
        memcpy(t->sums + offset, sum, n * sizeof *sum);
    } else {
        assert_int_equal(
            fed_gpu_copy(t->entry->stream, t->sums + offset, sum, n * sizeof *sum, FED_GPU_DOWN),
            FED_OK);
    }
}

static fed_status take(exchange_entry *entry, feddc_exchange *x, uint32_t step) {
    uint32_t order[TENSORS];
    target t = {.entry = entry, .sums = entry->sums + step * exchange_size()};
    make_order(entry, step + 1000, order);
    for (uint32_t k = 0; k < TENSORS; k++) {
        FED_TRY(feddc_exchange_take(x, step, offset_of(order[k]), tensor[order[k]], keep, &t,
                                    &entry->err));
    }
    entry->complete++;
    return FED_OK;
}

static fed_status work(exchange_entry *entry, feddc_exchange *x, const gradients *g) {
    uint32_t steps = entry->run->steps, put_in = 0;
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t until = step + (entry->run->rough ? 2 : 1);
        for (; put_in < until && put_in < steps; put_in++) {
            if (entry->stream != NULL &&
                put_in > 1) { /* the copy of step put_in - 2 may still read this buffer */
                FED_TRY(fed_gpu_sync(entry->stream));
            }
            FED_TRY(put(entry, x, put_in, g));
        }
        FED_TRY(take(entry, x, step));
    }
    return entry->stream != NULL ? fed_gpu_sync(entry->stream) : FED_OK;
}

static fed_status join(exchange_entry *entry, feddc_exchange **x) {
    const exchange_run *run = entry->run;
    feddc_exchange_options options = {.link = run->link,
                                      .place = entry->place,
                                      .collective = run->collective,
                                      .codec = run->codec,
                                      .pull = run->pull,
                                      .nic = run->nic,
                                      .device = entry->stream != NULL ? run->gpu : NULL,
                                      .stream = entry->stream,
                                      .tensor = tensor,
                                      .tensors = TENSORS,
                                      .small = 16,
                                      .bucket = BUCKET};
    return feddc_exchange_open(&options, x, &entry->err);
}

static fed_status make_gradients(const exchange_entry *entry, gradients *g) {
    const size_t size = 2 * exchange_size() * sizeof *g->host;
    g->host = g->put = malloc(size);
    return entry->stream != NULL ? fed_gpu_alloc(entry->run->gpu, size, (void **)&g->put) : FED_OK;
}

static void free_gradients(const exchange_entry *entry, gradients *g) {
    if (entry->stream != NULL) { /* copies from host to put may still run after a failure */
        (void)!fed_gpu_sync(entry->stream);
        fed_gpu_free(entry->run->gpu, g->put);
    }
    free(g->host);
}

static void train(exchange_entry *entry, feddc_exchange *x) {
    gradients g;
    entry->sums = calloc(entry->run->steps * exchange_size(), sizeof *entry->sums);
    entry->status = make_gradients(entry, &g);
    if (entry->status == FED_OK) {
        entry->status = work(entry, x, &g);
    }
    if (entry->status == FED_OK) {
        entry->state_size = feddc_exchange_state_size(x);
        entry->state = calloc(entry->state_size + 1, sizeof *entry->state);
        entry->status = feddc_exchange_save(x, entry->state, &entry->err);
    }
    feddc_exchange_close(x, entry->status == FED_OK);
    free_gradients(entry, &g);
}

static void serve(exchange_entry *entry, feddc_exchange *x) {
    entry->status = feddc_exchange_serve(x, &entry->err);
    entry->state_size = feddc_exchange_state_size(x);
    entry->state = calloc(entry->state_size + 1, sizeof *entry->state);
    if (entry->status == FED_OK) {
        entry->status = feddc_exchange_save(x, entry->state, &entry->err);
    }
    feddc_exchange_close(x, entry->status == FED_OK);
}

static void play(exchange_entry *entry) {
    feddc_exchange *x = NULL;
    const bool on_gpu =
        entry->run->gpu != NULL && !(entry->run->mixed && entry->place.rank % 2 == 1);
    if (on_gpu) {
        assert_int_equal(fed_gpu_stream_new(entry->run->gpu, NULL, &entry->stream), FED_OK);
    }
    entry->status = join(entry, &x);
    if (entry->status == FED_OK) {
        entry->workers = feddc_exchange_workers(x);
        if (entry->place.rank < entry->workers) {
            train(entry, x);
        } else {
            serve(entry, x);
        }
    }
    fed_gpu_stream_free(entry->stream);
    entry->stream = NULL;
}

void exchange_play(void *entry) {
    play(entry);
}

void exchange_group_play(const exchange_run *run, exchange_entry entry[LINK_GROUP_RANKS]) {
    link_group group;
    link_group_open(&group, run->link, run->size);
    for (uint32_t r = 0; r < run->size; r++) {
        entry[r] = (exchange_entry){.run = run, .place = group.place[r]};
    }
    link_group_run(run->size, exchange_play, entry, sizeof entry[0]);
    link_group_close(&group);
}

void exchange_group_clear(const exchange_run *run, exchange_entry entry[LINK_GROUP_RANKS]) {
    for (uint32_t r = 0; r < run->size; r++) {
        free(entry[r].sums);
        free(entry[r].state);
    }
}

double exchange_error(const exchange_entry *entry, uint32_t step) {
    size_t n = exchange_size();
    double *sum = calloc(2 * n, sizeof *sum), *magnitude = sum + n, worst = 0;
    float *grad = malloc(n * sizeof *grad);
    for (uint32_t r = 0; r < entry->workers; r++) {
        exchange_gradient(r, step, grad);
        for (size_t i = 0; i < n; i++) {
            sum[i] += (double)grad[i];
            magnitude[i] += fabs((double)grad[i]);
        }
    }
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)entry->sums[step * n + i] - sum[i]) / magnitude[i];
        worst = error > worst ? error : worst;
    }
    free(grad);
    free(sum);
    return worst;
}
