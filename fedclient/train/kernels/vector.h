/* Vectors of FEDTRAIN_LANES floats: compiler extensions that gcc and clang share on every ISA. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_VECTOR_H
#define FEDTRAIN_VECTOR_H

#include <stddef.h>
#include <stdint.h>

/* Loops over a tile's registers must be unrolled, or the compiler keeps the tile in memory. */
#if defined(__clang__)
#define KERNEL_UNROLL _Pragma("clang loop unroll(full)")
#else
#define KERNEL_UNROLL _Pragma("GCC unroll 16")
#endif

/* Each kernel file is compiled once for each vector unit: KERNEL(adam) is fedtrain_adam_avx512 for
 * AVX-512. */
#define KERNEL_PASTE_(name, isa) fedtrain_##name##_##isa
#define KERNEL_PASTE(name, isa)  KERNEL_PASTE_(name, isa)
#define KERNEL(name)             KERNEL_PASTE(name, FEDTRAIN_ISA)

/* The files with products are compiled once more for bfloat16. There, PRODUCT(conv) is
 * fedtrain_conv_bfloat16_avx512, and a lane of an operand holds PAIR values (product.h). */
#ifdef FEDTRAIN_PRODUCTS
#define PRODUCT(name) KERNEL_PASTE(name, FEDTRAIN_PRODUCTS)
enum { PAIR = 2 };
#else
#define PRODUCT(name) KERNEL(name)
enum { PAIR = 1 };
#endif

#define KERNEL_INLINE static inline __attribute__((always_inline))

enum { LANES = FEDTRAIN_LANES };

typedef float vec __attribute__((vector_size(4 * FEDTRAIN_LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * FEDTRAIN_LANES)));
typedef vec vec_unaligned __attribute__((aligned(4), may_alias));
typedef ivec ivec_unaligned __attribute__((aligned(4), may_alias));

KERNEL_INLINE size_t kernel_smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

KERNEL_INLINE vec vec_load(const float *p) {
    return *(const vec_unaligned *)p;
}

KERNEL_INLINE void vec_store(float *p, vec v) {
    *(vec_unaligned *)p = v;
}

KERNEL_INLINE void ivec_store(int32_t *p, ivec v) {
    *(ivec_unaligned *)p = v;
}

/* Load the first n floats at p, n <= LANES; the other lanes become 0. */
KERNEL_INLINE vec vec_load_first(const float *p, size_t n) {
    if (n == LANES) {
        return vec_load(p);
    }
    vec v = {0};
    for (size_t l = 0; l < n; l++) {
        v[l] = p[l];
    }
    return v;
}

KERNEL_INLINE void vec_store_first(float *p, vec v, size_t n) {
    if (n == LANES) {
        vec_store(p, v);
        return;
    }
    for (size_t l = 0; l < n; l++) {
        p[l] = v[l];
    }
}

/* Return p, but hide how it was computed, so that the compiler keeps it in a register. */
KERNEL_INLINE const float *kernel_apart(const float *p) {
    __asm__("" : "+r"(p));
    return p;
}

KERNEL_INLINE float *kernel_apart_to(float *p) {
    __asm__("" : "+r"(p));
    return p;
}

/* Return v, but hide from the compiler how it was computed. So a product is rounded before it is
 * added, not fused with the addition. */
KERNEL_INLINE vec vec_apart(vec v) {
#if defined(__x86_64__)
    __asm__("" : "+v"(v));
#elif defined(__aarch64__)
    __asm__("" : "+w"(v));
#else
    __asm__("" : "+m"(v));
#endif
    return v;
}

/* Take a in lanes where mask is -1, and b where it is 0. */
KERNEL_INLINE ivec ivec_select(ivec mask, ivec a, ivec b) {
    return (mask & a) | (~mask & b);
}

KERNEL_INLINE vec vec_select(ivec mask, vec a, vec b) {
    return (vec)ivec_select(mask, (ivec)a, (ivec)b);
}

/* The sum of the lanes, computed by adding the upper half to the lower one, repeatedly. */
KERNEL_INLINE float vec_sum(vec v) {
    float part[LANES];
    vec_store(part, v);
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int l = 0; l < width; l++) {
            part[l] += part[l + width];
        }
    }
    return part[0];
}

/* Lane numbers for a shuffle of two vectors: each block of 2 h lanes gets the lower halves of both
 * vectors' blocks (up 0), or the upper halves (up h). */
#define KERNEL_LOWER(l, h) ((l) & (h) ? LANES + (l) - (h) : (l))
#define KERNEL_FOUR(l, h, up)                                                                      \
    KERNEL_LOWER(l, h) + (up), KERNEL_LOWER((l) + 1, h) + (up), KERNEL_LOWER((l) + 2, h) + (up),   \
        KERNEL_LOWER((l) + 3, h) + (up)
#if FEDTRAIN_LANES == 16
#define KERNEL_ALL(h, up)                                                                          \
    KERNEL_FOUR(0, h, up), KERNEL_FOUR(4, h, up), KERNEL_FOUR(8, h, up), KERNEL_FOUR(12, h, up)
#elif FEDTRAIN_LANES == 8
#define KERNEL_ALL(h, up) KERNEL_FOUR(0, h, up), KERNEL_FOUR(4, h, up)
#else
#define KERNEL_ALL(h, up) KERNEL_FOUR(0, h, up)
#endif

/* -1 in lanes first .. LANES - 1, 0 below. The asm makes the compiler compute the mask at each use.
 * Otherwise the mask would take a register from the sums of a loop. */
KERNEL_INLINE ivec lanes_from(size_t first) {
    static const int32_t number[LANES] = {KERNEL_ALL(0, 0)};
    const int32_t *at = number;
    __asm__ volatile("" : "+r"(at));
    return *(const ivec_unaligned *)at >= (int32_t)first - (ivec){0};
}

/* Add the lower and upper halves of each block of 2 h lanes: in lanes where lane & h is 0 these
 * are a's sums, in the others b's. */
#define KERNEL_FOLD(a, b, h)                                                                       \
    (__builtin_shufflevector(a, b, KERNEL_ALL(h, 0)) +                                             \
     __builtin_shufflevector(a, b, KERNEL_ALL(h, h)))

/* Lane l of the result is the sum of all lanes of v[l]. */
KERNEL_INLINE vec vec_sums(vec v[LANES]) {
#if FEDTRAIN_LANES >= 16
    KERNEL_UNROLL
    for (int l = 0; l < 8; l++) {
        v[l] = KERNEL_FOLD(v[l], v[l + 8], 8);
    }
#endif
#if FEDTRAIN_LANES >= 8
    KERNEL_UNROLL
    for (int l = 0; l < 4; l++) {
        v[l] = KERNEL_FOLD(v[l], v[l + 4], 4);
    }
#endif
    v[0] = KERNEL_FOLD(v[0], v[2], 2);
    v[1] = KERNEL_FOLD(v[1], v[3], 2);
    return KERNEL_FOLD(v[0], v[1], 1);
}

#endif
