/* Reference code for values. Keep it simple and slow. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reference_values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void *fed_reference_make(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

uint32_t fed_reference_bits(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

float fed_reference_largest(const float *x, size_t n) {
    float max = 0.0f;
    for (size_t i = 0; i < n; i++) {
        max = fmaxf(max, fabsf(x[i]));
    }
    return max;
}

int fed_reference_larger_first(const void *a, const void *b) {
    const reference_place *left = a, *right = b;
    if (left->magnitude != right->magnitude) {
        return left->magnitude > right->magnitude ? -1 : 1;
    }
    return left->index < right->index ? -1 : left->index > right->index;
}

static float from_bytes(const uint8_t *src, unsigned first, unsigned bytes) {
    uint32_t bits = 0;
    float v;
    for (unsigned k = 0; k < bytes; k++) {
        bits |= (uint32_t)src[k] << 8 * (first + k);
    }
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Return the nearest bfloat16, ties to even; finite values stay finite. */
static float nearest_bfloat16(float v) {
    int exponent = 0;
    (void)frexp((double)v, &exponent);
    double unit = ldexp(1.0, exponent - 8 > -133 ? exponent - 8 : -133);
    double nearest = rint((double)v / unit) * unit, largest = ldexp(255.0, 120);
    return (float)fmax(fmin(nearest, largest), -largest);
}

/* Return 127 / the largest magnitude. *scale: the step between int8 levels. Both are 0 if all
 * values arrive as 0. */
static float inverse_scale(const float *x, const uint32_t *index, size_t count, float *scale) {
    float max = 0.0f;
    for (size_t k = 0; k < count; k++) {
        max = fmaxf(max, fabsf(x[index[k]]));
    }
    *scale = max / 127.0f;
    while (!isfinite(127.0f * *scale)) {
        *scale = nextafterf(*scale, 0.0f);
    }
    if (*scale < FLT_MIN) {
        *scale = 0.0f;
        return 0.0f;
    }
    return 127.0f / max;
}

size_t fed_reference_values_keep(unsigned form, const float *x, uint32_t *index, size_t count) {
    float scale, inverse = inverse_scale(x, index, count, &scale);
    size_t kept = 0;
    for (size_t k = 0; k < count; k++) {
        const float v = x[index[k]];
        if (form == REFERENCE_FLOAT32 ||
            (form == REFERENCE_BFLOAT16 ? nearest_bfloat16(v) : rintf(v * inverse)) != 0.0f) {
            index[kept++] = index[k];
        }
    }
    return kept;
}

size_t fed_reference_values_len(unsigned form, size_t count) {
    return form == REFERENCE_FLOAT32    ? 4 * count
           : form == REFERENCE_BFLOAT16 ? 2 * count
           : count > 0                  ? 4 + count
                                        : 0;
}

static void put_bytes(uint8_t *dst, uint32_t bits, unsigned bytes) {
    for (unsigned k = 0; k < bytes; k++) {
        dst[k] = (uint8_t)(bits >> 8 * k);
    }
}

void fed_reference_put_f32(uint8_t *dst, float v) {
    put_bytes(dst, fed_reference_bits(v), 4);
}

float fed_reference_get_f32(const uint8_t *src) {
    return from_bytes(src, 0, 4);
}

uint8_t *fed_reference_values_put(unsigned form, float *x, const uint32_t *index, size_t count,
                                  size_t *len) {
    float scale, inverse = inverse_scale(x, index, count, &scale);
    *len = fed_reference_values_len(form, count);
    uint8_t *out = fed_reference_make(*len + 4, 1);
    if (form == REFERENCE_INT8) {
        put_bytes(out, fed_reference_bits(scale), 4);
    }
    for (size_t k = 0; k < count; k++) {
        const float v = x[index[k]];
        if (form == REFERENCE_FLOAT32) {
            put_bytes(out + 4 * k, fed_reference_bits(v), 4);
        } else if (form == REFERENCE_BFLOAT16) {
            put_bytes(out + 2 * k, fed_reference_bits(nearest_bfloat16(v)) >> 16, 2);
        } else {
            out[4 + k] = (uint8_t)(int)rintf(v * inverse);
        }
        x[index[k]] -= fed_reference_values_get(form, out, k);
    }
    return out;
}

float fed_reference_values_get(unsigned form, const uint8_t *src, size_t k) {
    if (form == REFERENCE_FLOAT32) {
        return from_bytes(src + 4 * k, 0, 4);
    }
    if (form == REFERENCE_BFLOAT16) {
        return from_bytes(src + 2 * k, 2, 2);
    }
    const int level = src[4 + k] < 128 ? src[4 + k] : src[4 + k] - 256;
    return (float)level * from_bytes(src, 0, 4);
}
