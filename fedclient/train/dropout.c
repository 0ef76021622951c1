/* Dropout's random numbers: 16 bits a value, compared with the share that is dropped. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/dropout.h"

#include <math.h>

#include "fed/rng.h"

/* The random numbers of layer l are the stream (l, STREAM_DROPOUT). */
enum { STREAM_DROPOUT = 0x64726f70, SHARES = 1 << 16 };

uint32_t fedtrain_dropout_dropped(float p) {
    return (uint32_t)fminf(rintf(p * SHARES), SHARES - 1);
}

void fedtrain_dropout_draw(uint64_t seed, uint32_t layer, float p, uint8_t *keep, size_t n) {
    enum { WORDS = 128 };
    uint32_t least = fedtrain_dropout_dropped(p), random[WORDS];
    fed_rng rng;
    fed_rng_init(&rng, seed, layer, STREAM_DROPOUT);
    while (n > 0) {
        size_t values = n < 2 * (size_t)WORDS ? n : 2 * (size_t)WORDS;
        fed_rng_fill(&rng, random, (values + 1) / 2);
        for (size_t i = 0; i < values / 2; i++) {
            keep[2 * i] = (random[i] & (SHARES - 1)) >= least;
            keep[2 * i + 1] = random[i] / SHARES >= least;
        }
        if (values % 2 != 0) {
            keep[values - 1] = (random[values / 2] & (SHARES - 1)) >= least;
        }
        keep += values;
        n -= values;
    }
}

float fedtrain_dropout_scale(float p) {
    return (float)SHARES / (float)(SHARES - fedtrain_dropout_dropped(p));
}
