/* sbc: the positions of the largest values, and their mean in place of each.
 * Format: docs/codec-formats.md#sbc   Paper: SBC, algorithms 2 to 4 */
#include "codecs/prim/floats.h"
#include "codecs/prim/select.h"
#include "codecs/prim/sparse.h"
#include "codecs/registry.h"

static const fedcodec_sparse KIND = FEDCODEC_SPARSE_MEAN;

static const fedcodec_param sbc_params[] = {FEDCODEC_SPARSE_PARAMS(0.01)};

static size_t sbc_bound(const double *param, size_t n) {
    return fedcodec_sparse_bound(KIND, param, n);
}

static size_t sbc_work_size(const double *param, size_t n) {
    return fedcodec_select_work_size(n, fedcodec_select_most(param[0], n));
}

static fed_status sbc_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_chosen positive, negative;
    FED_TRY(
        fedcodec_select(job, fedcodec_select_most(job->param[0], job->n), &positive, &negative));
    double up = fedcodec_mean_magnitude(positive), down = fedcodec_mean_magnitude(negative);
    bool rises = up >= down;
    return fedcodec_sparse_put(KIND, job, rises ? positive : negative, rises ? up : -down, len);
}

static fed_status sbc_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    return fedcodec_sparse_check(KIND, src, len, n, max_abs);
}

static void sbc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    fedcodec_sparse_decode(KIND, src, len, y, n);
}

static void sbc_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    fedcodec_sparse_axpy(KIND, src, len, w, y, n);
}

static void sbc_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    fedcodec_sparse_fold(KIND, src, len, weight, acc, n);
}

static double sbc_squares(const uint8_t *src, size_t len, size_t n) {
    return fedcodec_sparse_squares(KIND, src, len, n);
}

const fedcodec_vtable FEDCODEC_VTABLE(sbc) = {
    .id = FEDCODEC_ID_sbc,
    .name = "sbc",
    .about = "where the largest values of one sign are, and their mean (SBC)",
    .params = sbc_params,
    .feedback = true,
    .bound = sbc_bound,
    .work_size = sbc_work_size,
    .scan = fedcodec_scan_added,
    .encode = sbc_encode,
    .check = sbc_check,
    .decode = sbc_decode,
    .axpy = sbc_axpy,
    .fold = sbc_fold,
    .squares = sbc_squares,
};
