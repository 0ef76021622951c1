/* Measures one codec in rounds, with memcpy and e[i] += g[i] for comparison. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_ROUNDS_H
#define CODEC_ROUNDS_H

#include "bench.h"
#include "fedcodec/codec_vtable.h"
#include "fedcodec/envelope.h"
#include "goals.h"
#include "gradients.h"
#include "plain_loops.h"

typedef enum bench_op {
    BENCH_ENCODE,
    BENCH_UNGUARDED, /* encode with fedcodec.unguarded: an error may spoil the residual */
    BENCH_DECODE,
    BENCH_AXPY,
    BENCH_FOLD, /* decode and add to int64 sums */
    BENCH_OPS
} bench_op;

typedef struct bench {
    const char *unit; /* the only vector unit to measure; NULL: all */
    const fed_pool *pool;
    gradients gradients;
    bool files, dense; /* gradients: read from files; drawn, normally distributed */
    bool fastest;      /* results are the fastest times, not the medians */
    size_t n, rounds;
    float *e, *unguarded; /* residuals of encodes with and without guard */
    float *before, *y;    /* before: a copy of a residual; y: decoded values */
    float *spare;
    int64_t *acc;
    uint32_t *at; /* positions of the nonzero values of a message */
    bench_times copy;
} bench;

/** Start a benchmark. With b->files, b->gradients must be set. */
void bench_start(bench *b, size_t n, size_t rounds);
void bench_end(bench *b);

/** Draw the gradients from this distribution, unless they are so already or are from files. */
void bench_draw(bench *b, bool dense);

const float *bench_gradient(const bench *b, size_t round);

/** A codec with memory for its messages. */
typedef struct message {
    fedcodec codec;
    const fed_layout *layout;
    const char *unit;
    bool alone; /* messages have no envelope */
    void *work;
    uint8_t *dst;
    size_t cap, len;
} message;

bool message_is_alone(const fedcodec *codec, const fed_layout *layout);
void message_start(message *m, const fedcodec *codec, const fed_layout *layout, const char *unit);
void message_end(message *m);

/** Encode a few gradients, so that b->e is filled and m->dst holds a typical message. */
void measure_warm(bench *b, message *m);

/** Median times (or the fastest), and the mean length of the messages in bytes. */
typedef struct result {
    double copy_s, loop_s, op_s[BENCH_OPS];
    double bound_s[BENCH_OPS]; /* time of the unavoidable work; 0: not measured */
    double bytes;
} result;

/** Return the median of the times, or with b->fastest the least; 0 if there are none. */
double bench_typical_s(const bench *b, bench_times *times);

/** Measure all operations. loop: a plain loop for the same messages, or NULL. */
result measure(bench *b, message *m, const plain_loop *loop);

#endif
