/* Files of golden messages: what they hold, and one after the other of a folder. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CODEC_VECTORS_H
#define FED_CODEC_VECTORS_H

#include "fedcodec/codec.h"
#include "vector_file.h"

/** A file, as tests/vectors/test_codec_vectors.c says. Floats are their bits, bytes a word each. */
typedef struct codec_vector {
    char name[VECTOR_NAME];
    char spec[FEDCODEC_SPEC];
    vector_words small, tensors, statistics; /* of an envelope */
    vector_words input, message, decoded, residual;
} codec_vector;

/** Call check with each file NAME.txt of the folder; returns how many there are. */
size_t codec_vectors_each(const char *folder, void (*check)(const codec_vector *v));

/** Are these the floats, to the bit? */
void assert_vector_floats(const codec_vector *v, const char *what, const float *x,
                          const vector_words *wanted);

#endif
