/* Shared by sbc, stc, dgc and threshold: messages with positions and, in some form, the value at
 * each. Format: docs/codec-formats.md#positions */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_SPARSE_H
#define FEDCODEC_PRIM_SPARSE_H

#include "codecs/prim/floats.h"
#include "codecs/prim/forms.h"
#include "codecs/prim/positions.h"

/** The ways to send the chosen values. */
typedef enum fedcodec_sparse {
    FEDCODEC_SPARSE_MEAN,  /* one value for all positions */
    FEDCODEC_SPARSE_SIGNS, /* one magnitude, and a sign for each position */
    FEDCODEC_SPARSE_VALUES /* each value, in a form of codecs/prim/forms.h */
} fedcodec_sparse;

/* The first parameter of sbc, stc and dgc. The second parameter of these codecs and of threshold
 * is FEDCODEC_POS_PARAM. The third one of dgc and threshold is FEDCODEC_FORM_PARAM. */
#define FEDCODEC_SPARSE_PARAM(fraction)                                                            \
    {                                                                                              \
        .key = "p", .preset = (fraction), .low = 1e-6, .high = 0.5,                                \
        .help = "fraction of values sent"                                                          \
    }

/** Return the most bytes of a message with k of n values. p: as for fedcodec_sparse_put. */
size_t fedcodec_sparse_bound_of(fedcodec_sparse kind, const double *param, double p, size_t n,
                                size_t k);

/** Return the most bytes of a message of a codec whose first parameter is p. */
size_t fedcodec_sparse_bound(fedcodec_sparse kind, const double *param, size_t n);

/** Write the chosen values. Unless job->spare is set, subtract from the residual what is decoded.
 *
 * p     the fraction of values from which Golomb's b is computed
 * mean  of the values for MEAN, of their magnitudes for SIGNS; ignored for VALUES. With VALUES,
 *       fedcodec_values_keep must have dropped the values that would be decoded as 0 */
fed_status fedcodec_sparse_put(fedcodec_sparse kind, const fedcodec_job *job, double p,
                               fedcodec_chosen chosen, double mean, size_t *len) FED_CHECKED;

/* Functions for a codec's vtable. kind is the codec's. */
fed_status fedcodec_sparse_check(fedcodec_sparse kind, const uint8_t *src, size_t len, size_t n,
                                 float *max_abs) FED_CHECKED;
void fedcodec_sparse_decode(fedcodec_sparse kind, const uint8_t *src, size_t len, float *y,
                            size_t n);
void fedcodec_sparse_axpy(fedcodec_sparse kind, const uint8_t *src, size_t len, float w, float *y,
                          size_t n);
void fedcodec_sparse_fold(fedcodec_sparse kind, const uint8_t *src, size_t len, int64_t weight,
                          int64_t *acc, size_t n);
double fedcodec_sparse_squares(fedcodec_sparse kind, const uint8_t *src, size_t len, size_t n);

/** Define the functions of a vtable that differ between codecs only by the constant kind.
 * FEDCODEC_SPARSE_MEMBERS puts them and sparse_bound into the vtable. For a codec whose first
 * parameter is p, FEDCODEC_SPARSE_BOUND defines sparse_bound; others write their own. */
// clang-format off
#define FEDCODEC_SPARSE_FUNCTIONS(kind)                                                            \
    static fed_status sparse_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {     \
        return fedcodec_sparse_check(kind, src, len, n, max_abs);                                  \
    }                                                                                              \
    static void sparse_decode(const uint8_t *src, size_t len, float *y, size_t n) {                \
        fedcodec_sparse_decode(kind, src, len, y, n);                                              \
    }                                                                                              \
    static void sparse_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {         \
        fedcodec_sparse_axpy(kind, src, len, w, y, n);                                             \
    }                                                                                              \
    static void sparse_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc,          \
                            size_t n) {                                                            \
        fedcodec_sparse_fold(kind, src, len, weight, acc, n);                                      \
    }                                                                                              \
    static double sparse_squares(const uint8_t *src, size_t len, size_t n) {                       \
        return fedcodec_sparse_squares(kind, src, len, n);                                         \
    }

#define FEDCODEC_SPARSE_BOUND(kind)                                                                \
    static size_t sparse_bound(const double *param, size_t n) {                                    \
        return fedcodec_sparse_bound(kind, param, n);                                              \
    }

#define FEDCODEC_SPARSE_MEMBERS                                                                    \
    .feedback = true, .spares = true, .bound = sparse_bound, .scan = fedcodec_scan_added,          \
    .check = sparse_check, .decode = sparse_decode, .axpy = sparse_axpy, .fold = sparse_fold,      \
    .squares = sparse_squares
// clang-format on

#endif
