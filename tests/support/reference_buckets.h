/* Reference code of the codecs with buckets, written from docs/codec-formats.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_REFERENCE_BUCKETS_H
#define FED_REFERENCE_BUCKETS_H

#include <stdbool.h>

#include "fedcodec/codec_vtable.h"

/** As fed_reference_encode; NULL: the codec has no buckets. */
uint8_t *fed_reference_buckets_encode(const fedcodec *codec, float *residual, size_t n,
                                      size_t *len);

/** As fed_reference_decode; false: the codec has no buckets. */
bool fed_reference_buckets_decode(const fedcodec_vtable *codec, const uint8_t *src, float *y,
                                  size_t n);

#endif
