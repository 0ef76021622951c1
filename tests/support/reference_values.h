/* Reference code for the values that sparse codecs send, written from docs/codec-formats.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_REFERENCE_VALUES_H
#define FED_REFERENCE_VALUES_H

#include <stddef.h>
#include <stdint.h>

/** Allocate zeroed memory for count + 1 elements. */
void *fed_reference_make(size_t count, size_t size);

/** _bits returns the bits of a float32, _put_f32 and _get_f32 write and read them in
 * little-endian. */
uint32_t fed_reference_bits(float v);
void fed_reference_put_f32(uint8_t *dst, float v);
float fed_reference_get_f32(const uint8_t *src);

float fed_reference_largest(const float *x, size_t n);

/** A value's place, for qsort: larger magnitudes first, equal ones by index. */
typedef struct reference_place {
    float magnitude; /* negative if the value has the sign that is not wanted */
    size_t index;
} reference_place;
int fed_reference_larger_first(const void *a, const void *b);

/** The forms of values, in the order of the codecs' parameter "values". */
enum { REFERENCE_FLOAT32, REFERENCE_BFLOAT16, REFERENCE_INT8 };

/** Remove the positions whose values would arrive as 0. Returns how many are left. */
size_t fed_reference_values_keep(unsigned form, const float *x, uint32_t *index, size_t count);

/** Encode the values at these positions, and subtract what arrives from x. Returns the bytes,
 * malloc'ed, without the byte that names the form. */
uint8_t *fed_reference_values_put(unsigned form, float *x, const uint32_t *index, size_t count,
                                  size_t *len);

/** _len returns how many bytes `count` values take; the other function decodes value k. */
size_t fed_reference_values_len(unsigned form, size_t count);
float fed_reference_values_get(unsigned form, const uint8_t *src, size_t k);

#endif
