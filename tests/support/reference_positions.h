/* Reference code of the codes for positions, and of the codecs that send the largest values: slow
 * and simple, written from docs/codec-formats.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_REFERENCE_POSITIONS_H
#define FED_REFERENCE_POSITIONS_H

#include "fedcodec/codec_vtable.h"

/** Encode k positions among n. pos: a code (0 golomb, 1 rice, 2 rans, 3 range). With `chosen`,
 * choose as the codec's parameter pos does: 4 is auto, and 2 and 3 may become rice. Returns the
 * bytes, malloc'ed, without the leading byte, which becomes *how. */
uint8_t *fed_reference_positions_put(unsigned pos, bool chosen, double p, const uint32_t *index,
                                     size_t k, size_t n, size_t *len, uint8_t *how);

/** Decode the positions of a valid message. */
void fed_reference_positions_get(uint8_t how, const uint8_t *src, size_t len, size_t k, size_t n,
                                 uint32_t *index);

/** As fed_reference_encode, for dgc, threshold and stc. NULL: it is another codec. */
uint8_t *fed_reference_sparse_encode(const fedcodec *codec, float *residual, size_t n, size_t *len);

/** As fed_reference_decode, into y, which must be all 0. Returns false if it is another codec. */
bool fed_reference_sparse_decode(const fedcodec_vtable *codec, const uint8_t *src, size_t len,
                                 float *y, size_t n);

#endif
