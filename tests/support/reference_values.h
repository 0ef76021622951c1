/* Reference code for values in sparse messages, written from docs/codec-formats.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_REFERENCE_VALUES_H
#define FED_REFERENCE_VALUES_H

#include <stddef.h>
#include <stdint.h>

/** Allocate zeroed memory for count + 1 elements. */
void *fed_reference_make(size_t count, size_t size);

/** Return the bits of a float32; write and read it as 4 little-endian bytes. */
uint32_t fed_reference_bits(float v);
void fed_reference_put_f32(uint8_t *dst, float v);
float fed_reference_get_f32(const uint8_t *src);

float fed_reference_largest(const float *x, size_t n);

/** A value to sort by qsort: larger magnitudes first, equal ones by index. */
typedef struct reference_place {
    float magnitude; /* negative: the value has the unwanted sign */
    size_t index;
} reference_place;
int fed_reference_larger_first(const void *a, const void *b);

/** The forms of values, as numbered by the codecs' parameter "values". */
enum { REFERENCE_FLOAT32, REFERENCE_BFLOAT16, REFERENCE_INT8 };

/** Remove the positions whose values would arrive as 0. Returns how many are left. */
size_t fed_reference_values_keep(unsigned form, const float *x, uint32_t *index, size_t count);

/** Encode the values at these positions, and subtract the decoded values from x. Returns the bytes,
 * malloc'ed. */
uint8_t *fed_reference_values_put(unsigned form, float *x, const uint32_t *index, size_t count,
                                  size_t *len);

/** Return the length of `count` values in bytes; return value k, decoded. */
size_t fed_reference_values_len(unsigned form, size_t count);
float fed_reference_values_get(unsigned form, const uint8_t *src, size_t k);

#endif
