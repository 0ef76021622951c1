/* Measures one codec in rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec_rounds.h"

#include <stdlib.h>
#include <string.h>

#include "yardstick.h"

enum { WARM_ROUNDS = 8 };

static size_t loop_rounds(const bench *b) {
    return b->rounds / 10 > 3 ? b->rounds / 10 : 3;
}

void bench_start(bench *b, size_t n, size_t rounds) {
    b->n = n;
    b->rounds = rounds;
    b->e = bench_alloc(n * sizeof *b->e);
    b->unguarded = bench_alloc(n * sizeof *b->unguarded);
    b->before = bench_alloc(n * sizeof *b->before);
    b->y = bench_alloc(PLAIN_SCRATCH(n));
    b->spare = bench_alloc(n * sizeof *b->spare);
    b->acc = bench_alloc(n * sizeof *b->acc);
    b->at = bench_alloc(n * sizeof *b->at);
}

void bench_end(bench *b) {
    gradients_free(&b->gradients);
    free(b->e);
    free(b->unguarded);
    free(b->before);
    free(b->y);
    free(b->spare);
    free(b->acc);
    free(b->at);
}

void bench_draw(bench *b, bool dense) {
    if (!b->files && (b->gradients.drawn == NULL || b->dense != dense)) {
        gradients_free(&b->gradients);
        gradients_draw(&b->gradients, b->n, dense);
        b->dense = dense;
    }
}

const float *bench_gradient(const bench *b, size_t round) {
    return b->gradients.g[round % b->gradients.count];
}

bool message_is_alone(const fedcodec *codec, const fed_layout *layout) {
    return layout->count == 1 && codec->stage == 0;
}

void message_start(message *m, const fedcodec *codec, const fed_layout *layout, const char *unit) {
    *m = (message){.codec = *codec, .layout = layout, .unit = unit};
    m->alone = message_is_alone(codec, layout);
    m->cap =
        m->alone ? fedcodec_bound(codec, layout->size) : fedcodec_envelope_bound(codec, layout, 0);
    m->work = bench_alloc(m->alone ? fedcodec_work_size(codec, layout->size)
                                   : fedcodec_envelope_work_size(codec, layout, 0));
    m->dst = bench_alloc(m->cap);
}

void message_end(message *m) {
    free(m->dst);
    free(m->work);
}

static void encode(message *m, float *e, const float *g, bool unguarded) {
    fedcodec codec = m->codec;
    codec.unguarded = unguarded;
    if (m->alone) {
        bench_require(fedcodec_encode(&codec, codec.vtable->feedback ? e : NULL, g, m->layout->size,
                                      m->work, m->dst, m->cap, &m->len),
                      "encode");
        return;
    }
    fed_writer w;
    fed_writer_fixed(&w, m->dst, m->cap);
    bench_require(fedcodec_envelope_encode(&codec, m->layout, 0, e, g, m->work, &w), "encode");
    m->len = w.len;
}

static void decode(const message *m, float *y) {
    bench_require(m->alone ? fedcodec_decode(m->codec.vtable, m->dst, m->len, y, m->layout->size)
                           : fedcodec_envelope_decode(m->dst, m->len, m->layout, y, NULL),
                  "decode");
}

static void axpy(const message *m, float *y) {
    const float w = 0.5f;
    bench_require(m->alone ? fedcodec_axpy(m->codec.vtable, m->dst, m->len, w, y, m->layout->size)
                           : fedcodec_envelope_axpy(m->dst, m->len, m->layout, w, y, NULL),
                  "axpy");
}

static fed_status fold_envelope(const message *m, int64_t weight, int64_t *acc) {
    fedcodec_message opened;
    FED_TRY(fedcodec_message_open(m->dst, m->len, m->layout, NULL, 0, &opened, NULL));
    fed_status status = fedcodec_message_fold(&opened, weight, acc, NULL);
    fedcodec_message_close(&opened);
    return status;
}

static void fold(const message *m, int64_t *acc) {
    const int64_t w = 8;
    bench_require(m->alone ? fedcodec_fold(m->codec.vtable, m->dst, m->len, w, acc, m->layout->size)
                           : fold_envelope(m, w, acc),
                  "fold");
}

typedef struct all_times {
    bench_times copy, guard, add, read, clear, write, rewrite, scatter, loop, op[BENCH_OPS];
} all_times;

void measure_warm(bench *b, message *m) {
    memset(b->e, 0, b->n * sizeof *b->e);
    for (size_t round = 0; round < WARM_ROUNDS; round++) {
        encode(m, b->e, bench_gradient(b, round), false);
    }
    memcpy(b->unguarded, b->e, b->n * sizeof *b->e);
}

static const char *yardstick_of(const message *m) {
    return strcmp(m->unit, "plain") != 0 ? m->unit : "baseline";
}

/* Measure the bound of a guarded encode, which must read all values before it changes the residual.
 * Reading backward leaves the first values in the cache. */
static void guarded_add(const bench *b, const message *m, const float *g) {
    enum { BLOCK = 4096 };
    const char *unit = yardstick_of(m);
    for (size_t end = b->n, count; end > 0; end -= count) {
        count = end % BLOCK != 0 ? end % BLOCK : BLOCK;
        yardstick_read(unit, g + end - count, count);
        if (m->codec.vtable->absorb != NULL) {
            yardstick_read(unit, b->y + end - count, count);
        }
    }
    bench_add(b->y, g, b->n);
}

/* The bound of an encode without residual: read the values, and write as many bytes as the message
 * has. */
static void read_and_write(const bench *b, const message *m, const float *g) {
    yardstick_read(yardstick_of(m), g, b->n);
    memset(b->spare, 0, m->len < b->n * sizeof *b->spare ? m->len : b->n * sizeof *b->spare);
}

static void read_message(const message *m) {
    uint64_t sum = 0, word;
    for (size_t i = 0; i + sizeof word <= m->len; i += sizeof word) {
        memcpy(&word, m->dst + i, sizeof word);
        sum ^= word;
    }
    volatile uint64_t used = sum; /* volatile, so that the compiler keeps the loop */
    (void)used;
}

static void set_values(const bench *b, const message *m, bool with_memset) {
    read_message(m);
    if (with_memset) {
        memset(b->spare, 0, b->n * sizeof *b->spare);
    } else {
        yardstick_write(yardstick_of(m), b->spare, b->n);
    }
}

static void add_to_all(const bench *b, const message *m) {
    read_message(m);
    yardstick_rewrite(yardstick_of(m), b->spare, b->n);
}

/* The bound of adding few values: read the message, and add at known positions. */
static void add_to_few(const bench *b, const message *m, size_t count) {
    read_message(m);
    const float nothing = b->spare[0];
    for (size_t k = 0; k < count; k++) {
        b->y[b->at[k]] += nothing;
    }
}

static size_t find_positions(bench *b) {
    size_t count = 0;
    for (size_t i = 0; i < b->n; i++) {
        b->at[count] = (uint32_t)i;
        count += b->y[i] < 0.0F || b->y[i] > 0.0F;
    }
    return count;
}

/* Measure bounds of decoding: read the message, and set all values, add to all values, or add to
 * few. */
static void measure_bounds(const bench *b, const message *m, size_t nonzero, all_times *t) {
    if (t->clear.count == t->write.count) {
        BENCH_TIME(&t->clear, set_values(b, m, true));
    } else {
        BENCH_TIME(&t->write, set_values(b, m, false));
    }
    BENCH_TIME(&t->rewrite, add_to_all(b, m));
    if (nonzero < b->n / 4) {
        BENCH_TIME(&t->scatter, add_to_few(b, m, nonzero));
    }
}

/* A yardstick precedes each encode, so that all encodes find the same data in the cache. */
static void measure_round(bench *b, message *m, const float *g, size_t nonzero, all_times *t) {
    const bool feedback = m->codec.vtable->feedback;
    BENCH_TIME(&t->copy, memcpy(b->spare, g, b->n * sizeof *g));
    if (feedback) {
        BENCH_TIME(&t->guard, guarded_add(b, m, g));
    } else {
        BENCH_TIME(&t->read, read_and_write(b, m, g));
    }
    BENCH_TIME(&t->op[BENCH_ENCODE], encode(m, b->e, g, false));
    if (feedback) {
        BENCH_TIME(&t->add, bench_add(b->y, g, b->n));
    } else {
        BENCH_TIME(&t->read, read_and_write(b, m, g));
    }
    BENCH_TIME(&t->op[BENCH_UNGUARDED], encode(m, b->unguarded, g, true));
    measure_bounds(b, m, nonzero, t);
    BENCH_TIME(&t->op[BENCH_DECODE], decode(m, b->y));
    BENCH_TIME(&t->op[BENCH_AXPY], axpy(m, b->y));
    BENCH_TIME(&t->op[BENCH_FOLD], fold(m, b->acc));
}

/* The plain loop must make the codec's message from the same residual. */
static void measure_with_loop(bench *b, message *m, const plain_loop *loop, const float *g,
                              size_t nonzero, uint8_t *dst, all_times *t) {
    size_t len = 0;
    memcpy(b->before, b->e, b->n * sizeof *b->e);
    BENCH_TIME(&t->loop, len = loop->encode(m->codec.param[0], b->before, g, b->n, b->y, dst));
    measure_round(b, m, g, nonzero, t);
    bool same = len == m->len && memcmp(dst, m->dst, len) == 0 &&
                memcmp(b->before, b->e, b->n * sizeof *b->e) == 0 &&
                memcmp(b->before, b->unguarded, b->n * sizeof *b->e) == 0;
    bench_require(same ? FED_OK : FED_EFORMAT, "the plain loop's message or residual differs");
}

static double fastest(double a, double b) {
    return a > 0.0 && (a < b || !(b > 0.0)) ? a : b;
}

double bench_typical_s(const bench *b, bench_times *times) {
    const double median_s = bench_median_s(times);
    return b->fastest && times->count > 0 ? times->s[0] : median_s;
}

result measure(bench *b, message *m, const plain_loop *loop) {
    all_times *t = bench_alloc(sizeof *t);
    uint8_t *dst = bench_alloc(loop != NULL ? m->cap : 0);
    result r = {.bytes = 0.0};
    measure_warm(b, m);
    decode(m, b->y);
    const size_t nonzero = find_positions(b);
    for (size_t round = 0; round < b->rounds; round++) {
        const float *g = bench_gradient(b, WARM_ROUNDS + round);
        if (loop != NULL && round < loop_rounds(b)) {
            measure_with_loop(b, m, loop, g, nonzero, dst, t);
        } else {
            measure_round(b, m, g, nonzero, t);
        }
        r.bytes += (double)m->len / (double)b->rounds;
    }
    r.copy_s = bench_typical_s(b, &t->copy);
    b->copy.s[b->copy.count++] = r.copy_s;
    r.loop_s = bench_typical_s(b, &t->loop);
    const double read_s = bench_typical_s(b, &t->read);
    r.bound_s[BENCH_ENCODE] = read_s > 0.0 ? read_s : bench_typical_s(b, &t->guard);
    r.bound_s[BENCH_UNGUARDED] = read_s > 0.0 ? read_s : bench_typical_s(b, &t->add);
    r.bound_s[BENCH_DECODE] = fastest(bench_typical_s(b, &t->clear), bench_typical_s(b, &t->write));
    r.bound_s[BENCH_AXPY] =
        fastest(bench_typical_s(b, &t->scatter), bench_typical_s(b, &t->rewrite));
    for (size_t k = 0; k < BENCH_OPS; k++) {
        r.op_s[k] = bench_typical_s(b, &t->op[k]);
    }
    free(dst);
    free(t);
    return r;
}
