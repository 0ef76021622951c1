/* Reference of the values that sparse codecs send, written from docs/codec-formats.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_REFERENCE_VALUES_H
#define FED_REFERENCE_VALUES_H

#include <stddef.h>
#include <stdint.h>

/** Zeroed memory for so many and one more. */
void *fed_reference_make(size_t count, size_t size);

/** The bits of a float32; and its four bytes, the lowest first. */
uint32_t fed_reference_bits(float v);
void fed_reference_put_f32(uint8_t *dst, float v);
float fed_reference_get_f32(const uint8_t *src);

/** The largest magnitude of n values. */
float fed_reference_largest(const float *x, size_t n);

/** For qsort: the larger magnitude first, of equal ones the smaller index. */
typedef struct reference_place {
    float magnitude; /* of one sign only: negative for values of the other sign */
    size_t index;
} reference_place;
int fed_reference_larger_first(const void *a, const void *b);

/** As the parameter "values" counts them. */
enum { REFERENCE_FLOAT32, REFERENCE_BFLOAT16, REFERENCE_INT8 };

/** Drop the positions of values that would arrive as 0. Returns how many are left. */
size_t fed_reference_values_keep(unsigned form, const float *x, uint32_t *index, size_t count);

/** The bytes of the values at these positions, without the byte that names the form: malloc'ed.
 * What arrives is subtracted from x. */
uint8_t *fed_reference_values_put(unsigned form, float *x, const uint32_t *index, size_t count,
                                  size_t *len);

/** How many bytes the values have, and value k of them. */
size_t fed_reference_values_len(unsigned form, size_t count);
float fed_reference_values_get(unsigned form, const uint8_t *src, size_t k);

#endif
