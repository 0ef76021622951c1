/* Reference code of codecs with simple formats, written from docs/codec-formats.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_REFERENCE_SIMPLE_H
#define FED_REFERENCE_SIMPLE_H

#include <stdbool.h>

#include "fedcodec/codec_vtable.h"

/** As in reference_codecs.h. Returns false for a codec of another file. */
bool fed_reference_simple_encode(const fedcodec *codec, float *residual, size_t n, uint8_t **data,
                                 size_t *len);
bool fed_reference_simple_decode(const fedcodec_vtable *codec, const uint8_t *src, size_t len,
                                 float *y, size_t n);

#endif
