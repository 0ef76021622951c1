/* Reference code of the codec eden: simple and slow, written from docs/codec-formats.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_REFERENCE_EDEN_H
#define FED_REFERENCE_EDEN_H

#include "fedcodec/codec_vtable.h"

/** As fed_reference_encode and fed_reference_decode, for eden alone. */
uint8_t *fed_reference_eden_encode(const double *param, float *residual, size_t n, size_t *len);
void fed_reference_eden_decode(const uint8_t *src, size_t len, float *y, size_t n);

#endif
