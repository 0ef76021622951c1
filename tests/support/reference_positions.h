/* Reference code of the position codes and of the codecs dgc, threshold and stc, written from
 * docs/codec-formats.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_REFERENCE_POSITIONS_H
#define FED_REFERENCE_POSITIONS_H

#include "fedcodec/codec_vtable.h"

/** Encode k of n positions. pos: 0 golomb, 1 rice, 2 rans, 3 range; with `chosen`, the codec's
 * parameter pos, which may also be 4, auto. *how: the message's leading byte. Returns the other
 * bytes, malloc'ed. */
uint8_t *fed_reference_positions_put(unsigned pos, bool chosen, double p, const uint32_t *index,
                                     size_t k, size_t n, size_t *len, uint8_t *how);

/** Decode the k positions of a valid message. */
void fed_reference_positions_get(uint8_t how, const uint8_t *src, size_t len, size_t k, size_t n,
                                 uint32_t *index);

/** As fed_reference_encode. NULL: the codec is not dgc, threshold or stc. */
uint8_t *fed_reference_sparse_encode(const fedcodec *codec, float *residual, size_t n, size_t *len);

/** As fed_reference_decode. y must be all 0. Returns false for another codec. */
bool fed_reference_sparse_decode(const fedcodec_vtable *codec, const uint8_t *src, size_t len,
                                 float *y, size_t n);

#endif
