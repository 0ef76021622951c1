/* Measures one codec on a gradient per round, alternating with memcpy and e[i] += g[i]. */
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
    BENCH_UNGUARDED, /* encode without guard: an error may lose the residual */
    BENCH_DECODE,
    BENCH_AXPY, /* decode and add */
    BENCH_FOLD, /* decode and add exactly */
    BENCH_OPS
} bench_op;

typedef struct bench {
    const char *unit; /* the only vector unit to be measured, or NULL */
    const fed_pool *pool;
    gradients gradients;
    bool files, dense; /* the kind of gradients */
    size_t n, rounds;
    float *e, *unguarded; /* residuals of the encodes with and without guard */
    float *before, *y;    /* a copy of a residual; decoded values */
    float *spare;         /* memory that the yardsticks write to */
    int64_t *acc;
    uint32_t *at;     /* positions of the nonzero values of a message */
    bench_times copy; /* the median time of memcpy in each measurement */
} bench;

/** Start a benchmark. Either b->files and their gradients are set, or neither is. */
void bench_start(bench *b, size_t n, size_t rounds);
void bench_end(bench *b);

/** Make the gradients dense or not. The user's own gradients stay as they are. */
void bench_draw(bench *b, bool dense);

const float *bench_gradient(const bench *b, size_t round);

/** A codec's messages: of one tensor alone, or an envelope of several tensors or with a second
 * stage (a lossless pass after the codec). */
typedef struct message {
    fedcodec codec;
    const fed_layout *layout;
    const char *unit; /* the vector unit of the code */
    bool alone;       /* made by the codec's own calls, without an envelope */
    void *work;
    uint8_t *dst;
    size_t cap, len;
} message;

bool message_is_alone(const fedcodec *codec, const fed_layout *layout);
void message_start(message *m, const fedcodec *codec, const fed_layout *layout, const char *unit);
void message_end(message *m);

/** Encode the first few gradients. Then b->e is filled, and m->dst holds a typical message. */
void measure_warm(bench *b, message *m);

/** Medians of all rounds, and the messages' mean length. */
typedef struct result {
    double copy_s, loop_s, op_s[BENCH_OPS];
    double bound_s[BENCH_OPS]; /* time of the least possible work; 0: not measured */
    double bytes;
} result;

/** loop: the plain loop that makes the same messages, or NULL. */
result measure(bench *b, message *m, const plain_loop *loop);

#endif
