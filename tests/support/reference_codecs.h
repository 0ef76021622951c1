/* Reference code of codecs: simple and slow, written from docs/codec-formats.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_REFERENCE_CODECS_H
#define FED_REFERENCE_CODECS_H

#include "fedcodec/codec_vtable.h"

/** Encode as fedcodec_encode must. Returns the message, malloc'ed. */
uint8_t *fed_reference_encode(const fedcodec *codec, float *residual, size_t n, size_t *len);

void fed_reference_decode(const fedcodec_vtable *codec, const uint8_t *src, size_t len, float *y,
                          size_t n);

#endif
