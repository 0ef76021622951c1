/* Golden messages of codecs, read from files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CODEC_VECTORS_H
#define FED_CODEC_VECTORS_H

#include "fedcodec/codec.h"
#include "vector_file.h"

/** A golden message; tests/vectors/test_codec_vectors.c describes the file format. The words
 * of input, decoded and residual are the bits of float32 values. */
typedef struct codec_vector {
    char name[VECTOR_NAME];
    char spec[FEDCODEC_SPEC];
    vector_words small, tensors, statistics; /* of an envelope */
    vector_words input, message, decoded, residual;
} codec_vector;

/** Call check for each file of the folder. Returns the number of files. */
size_t codec_vectors_each(const char *folder, void (*check)(const codec_vector *v));

/** Check that x has these bits. */
void assert_vector_floats(const codec_vector *v, const char *what, const float *x,
                          const vector_words *wanted);

#endif
