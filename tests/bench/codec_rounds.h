/* One codec on gradients that come round by round, in turn with memcpy and e[i] += g[i]. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_ROUNDS_H
#define CODEC_ROUNDS_H

#include "bench.h"
#include "fedcodec/codec_vtable.h"
#include "fedcodec/envelope.h"
#include "goals.h"
#include "gradients.h"
#include "plain_loops.h"

/** Gradients of one size, memory for all that is made of them, and the yardsticks' times. */
typedef struct bench {
    const char *unit;     /* the only one to be measured, or NULL */
    const fed_pool *pool; /* encodes, or NULL */
    gradients gradients;
    bool files, dense; /* the gradients' kind */
    size_t n, rounds;
    float *e, *unguarded; /* residuals, alike */
    float *before, *y;    /* a copy of one, decoded values */
    float *spare;         /* what yardsticks write to */
    int64_t *acc;
    bench_times copy, add; /* medians of each measurement */
} bench;

/** With b->files and their gradients set, or neither. */
void bench_start(bench *b, size_t n, size_t rounds);
void bench_end(bench *b);

/** See to it that the gradients are of that kind, unless they are the user's. */
void bench_draw(bench *b, bool dense);

/** The gradient of a round. */
const float *bench_gradient(const bench *b, size_t round);

/** A codec's messages: one tensor's alone, or an envelope of several, or with a second stage. */
typedef struct message {
    fedcodec codec;
    const fed_layout *layout;
    const char *unit; /* the code's */
    bool alone;       /* by the codec's own calls, without an envelope */
    void *work;
    uint8_t *dst;
    size_t cap, len;
} message;

bool message_is_alone(const fedcodec *codec, const fed_layout *layout);
void message_start(message *m, const fedcodec *codec, const fed_layout *layout, const char *unit);
void message_end(message *m);

/** Encode the first few gradients: b->e fills, and m->dst holds a message like those to come. */
void measure_warm(bench *b, message *m);

/** Medians of all rounds, and the messages' mean length. */
typedef struct result {
    double copy_s, add_s, loop_s, op_s[BENCH_OPS];
    double bound_s[BENCH_OPS]; /* what no code that touches each value is faster than; 0: unknown */
    double bytes;
} result;

/** loop: the plain loop that makes the same messages, or NULL. */
result measure(bench *b, message *m, const plain_loop *loop);

#endif
