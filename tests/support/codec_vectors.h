/* Golden messages: a file's contents, and a loop over a folder's files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CODEC_VECTORS_H
#define FED_CODEC_VECTORS_H

#include "fedcodec/codec.h"
#include "vector_file.h"

/** A golden message (the format: tests/vectors/test_codec_vectors.c). A word is the bits of one
 * float32, or one byte of the message. */
typedef struct codec_vector {
    char name[VECTOR_NAME];
    char spec[FEDCODEC_SPEC];
    vector_words small, tensors, statistics; /* empty unless the message is an envelope */
    vector_words input, message, decoded, residual;
} codec_vector;

/** Call check with each file NAME.txt of the folder; returns how many there are. */
size_t codec_vectors_each(const char *folder, void (*check)(const codec_vector *v));

/** Check that x holds these floats, bit for bit. */
void assert_vector_floats(const codec_vector *v, const char *what, const float *x,
                          const vector_words *wanted);

#endif
