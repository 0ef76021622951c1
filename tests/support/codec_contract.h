/* For the contract tests of the codecs: specs, values and messages of many kinds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CODEC_CONTRACT_H
#define FED_CODEC_CONTRACT_H

#include "codecs/registry.h"
#include "fed/pool.h"

/** The vector unit under test. */
extern const fedcodec_unit *contract_unit;

/** Return the same codec on another vector unit. */
fedcodec contract_on_unit(const fedcodec *codec, const fedcodec_unit *other);

/** Parse a spec string as a codec of contract_unit. */
fedcodec contract_parse(const char *spec);

/** Set *codec to the k-th codec to test, on contract_unit. Returns false after the last. */
bool contract_codec(size_t k, fedcodec *codec);

typedef enum contract_fill {
    FILL_LAPLACE,
    FILL_ZERO,
    FILL_CONSTANT,
    FILL_TIED,
    FILL_DENORMAL,
    FILL_TINIEST,
    FILL_HUGE,
    FILL_SPIKE,
    FILL_NEGATIVE,
    FILL_SPARSE,
    FILL_ALTERNATING,
    CONTRACT_FILLS
} contract_fill;

extern const char *const contract_fill_names[CONTRACT_FILLS];

/** Return n values of that kind, malloc'ed. */
float *contract_values(contract_fill kind, size_t n);
float *contract_copy(const float *x, size_t n);

/** A message in memory of exactly its length, so that sanitizers find a read past its end. */
typedef struct contract_message {
    fedcodec codec;
    size_t n;
    uint8_t *data;
    size_t len;
    float *residual; /* the values minus what was sent */
} contract_message;

/** Encode residual + x, each of which may be NULL. The message owns the residual, which is
 * malloc'ed. */
contract_message contract_encode_with(const fedcodec *codec, float *residual, const float *x,
                                      size_t n);

contract_message contract_encode(const fedcodec *codec, const float *x, size_t n);
void contract_drop(contract_message *m);

/** Call visit with a message of each codec and each kind of tensor. */
void contract_each_message(size_t n, void (*visit)(const contract_message *m, const float *x));

/** A pool's `run` that runs the parts one by one, in backward order. */
void contract_run_backwards(const fed_pool *self, size_t parts, void (*part)(void *job, size_t k),
                            void *job);

#endif
