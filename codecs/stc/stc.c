/* stc: the positions of the values of largest magnitude, their signs, and one magnitude for all.
 * Format: docs/codec-formats.md#stc   Paper: Sattler et al. 2019, algorithm 1 */
#include "codecs/prim/floats.h"
#include "codecs/prim/select.h"
#include "codecs/prim/sparse.h"
#include "codecs/registry.h"

static const fedcodec_sparse KIND = FEDCODEC_SPARSE_SIGNS;

static const fedcodec_param stc_params[] = {FEDCODEC_SPARSE_PARAMS(0.01)};

static size_t stc_bound(const double *param, size_t n) {
    return fedcodec_sparse_bound(KIND, param, n);
}

static size_t stc_work_size(const double *param, size_t n) {
    return fedcodec_select_magnitude_work_size(n, fedcodec_select_most(param[0], n));
}

static fed_status stc_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_chosen chosen;
    FED_TRY(fedcodec_select_magnitude(job, fedcodec_select_most(job->param[0], job->n), &chosen));
    return fedcodec_sparse_put(KIND, job, chosen, fedcodec_mean_magnitude(chosen), len);
}

static fed_status stc_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    return fedcodec_sparse_check(KIND, src, len, n, max_abs);
}

static void stc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    fedcodec_sparse_decode(KIND, src, len, y, n);
}

static void stc_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    fedcodec_sparse_axpy(KIND, src, len, w, y, n);
}

static void stc_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    fedcodec_sparse_fold(KIND, src, len, weight, acc, n);
}

static double stc_squares(const uint8_t *src, size_t len, size_t n) {
    return fedcodec_sparse_squares(KIND, src, len, n);
}

const fedcodec_vtable FEDCODEC_VTABLE(stc) = {
    .id = FEDCODEC_ID_stc,
    .name = "stc",
    .about = "where the values of largest magnitude are, their signs, and their mean (STC)",
    .params = stc_params,
    .feedback = true,
    .bound = stc_bound,
    .work_size = stc_work_size,
    .scan = fedcodec_scan_added,
    .encode = stc_encode,
    .check = stc_check,
    .decode = stc_decode,
    .axpy = stc_axpy,
    .fold = stc_fold,
    .squares = stc_squares,
};
