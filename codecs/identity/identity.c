/* float32: the values themselves. Format: docs/codec-formats.md#float32 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "codecs/prim/dense.h"
#include "codecs/prim/floats.h"
#include "codecs/registry.h"

static const fedcodec_param identity_params[] = {{.key = NULL}};

static size_t identity_bound(const double *param, size_t n) {
    (void)param;
    return 4 * n;
}

static void copy(const fedcodec_job *block, size_t k, void *with) {
    (void)k;
    (void)with;
    assert(block->x != NULL);
    fedcodec_dense_fetch(block);
    fedcodec_store_values(block->dst, block->x, block->n);
}

static fed_status identity_encode(const fedcodec_job *job, size_t *len) {
    FED_TRY(fedcodec_dense_encode(job, 0, 32, copy, NULL));
    *len = 4 * job->n;
    return FED_OK;
}

static fed_status identity_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len % 4 == 0 && len / 4 == n, FED_EFORMAT);
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t m = fedcodec_bits(fedcodec_load_f32(src + 4 * i)) & FEDCODEC_MAGNITUDE;
        max = m > max ? m : max;
    }
    float max_value = fedcodec_float(max);
    FED_REQUIRE(isfinite(max_value), FED_EFORMAT);
    *max_abs = max_value;
    return FED_OK;
}

static void identity_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    (void)len;
    for (size_t i = 0; i < n; i++) {
        y[i] = fedcodec_load_f32(src + 4 * i);
    }
}

static void identity_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    (void)len;
    for (size_t i = 0; i < n; i++) {
        y[i] += w * fedcodec_load_f32(src + 4 * i);
    }
}

static void identity_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    (void)len;
    for (size_t i = 0; i < n; i++) {
        acc[i] += weight * fedcodec_fixed(fedcodec_load_f32(src + 4 * i));
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(identity) = {
    .id = FEDCODEC_ID_identity,
    .name = "float32",
    .about = "the values themselves, nothing is lost",
    .params = identity_params,
    .feedback = false,
    .bound = identity_bound,
    .scan = fedcodec_scan_sum,
    .encode = identity_encode,
    .check = identity_check,
    .decode = identity_decode,
    .axpy = identity_axpy,
    .fold = identity_fold,
};
