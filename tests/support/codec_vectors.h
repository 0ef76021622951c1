/* Files of golden messages: what they hold, and one after the other of a folder. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CODEC_VECTORS_H
#define FED_CODEC_VECTORS_H

#include "fedcodec/codec.h"

enum { CODEC_VECTOR_WORDS = 1 << 20 };

typedef struct codec_words {
    uint32_t word[CODEC_VECTOR_WORDS];
    size_t len;
} codec_words;

/** A file, as tests/vectors/test_codec_vectors.c says. Floats are their bits, bytes a word each. */
typedef struct codec_vector {
    char name[300];
    char spec[FEDCODEC_SPEC];
    codec_words small, tensors, statistics; /* of an envelope */
    codec_words input, message, decoded, residual;
} codec_vector;

/** Call check with each file NAME.txt of the folder; returns how many there are. */
size_t codec_vectors_each(const char *folder, void (*check)(const codec_vector *v));

/** Are these the floats, to the bit? */
void assert_vector_floats(const codec_vector *v, const char *what, const float *x,
                          const codec_words *wanted);

/** The message's bytes. */
void codec_vector_message(const codec_vector *v, uint8_t *message);

#endif
