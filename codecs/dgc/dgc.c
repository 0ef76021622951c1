/* dgc: the values of largest magnitude as float32, and their positions (gradient dropping).
 * Format: docs/codec-formats.md#dgc   Paper: Aji and Heafield 2017; Lin et al. 2018, section 3 */
#include "codecs/prim/floats.h"
#include "codecs/prim/select.h"
#include "codecs/prim/sparse.h"
#include "codecs/registry.h"

static const fedcodec_sparse KIND = FEDCODEC_SPARSE_VALUES;

static const fedcodec_param dgc_params[] = {FEDCODEC_SPARSE_PARAMS(0.001)};

static size_t dgc_bound(const double *param, size_t n) {
    return fedcodec_sparse_bound(KIND, param, n);
}

static size_t dgc_work_size(const double *param, size_t n) {
    return fedcodec_select_magnitude_work_size(n, fedcodec_select_most(param[0], n));
}

static fed_status dgc_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_chosen chosen;
    FED_TRY(fedcodec_select_magnitude(job, fedcodec_select_most(job->param[0], job->n), &chosen));
    return fedcodec_sparse_put(KIND, job, chosen, 0.0, len);
}

static fed_status dgc_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    return fedcodec_sparse_check(KIND, src, len, n, max_abs);
}

static void dgc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    fedcodec_sparse_decode(KIND, src, len, y, n);
}

static void dgc_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    fedcodec_sparse_axpy(KIND, src, len, w, y, n);
}

static void dgc_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    fedcodec_sparse_fold(KIND, src, len, weight, acc, n);
}

static double dgc_squares(const uint8_t *src, size_t len, size_t n) {
    return fedcodec_sparse_squares(KIND, src, len, n);
}

const fedcodec_vtable FEDCODEC_VTABLE(dgc) = {
    .id = FEDCODEC_ID_dgc,
    .name = "dgc",
    .about = "the values of largest magnitude and where they are (gradient dropping, DGC)",
    .params = dgc_params,
    .feedback = true,
    .bound = dgc_bound,
    .work_size = dgc_work_size,
    .scan = fedcodec_scan_added,
    .encode = dgc_encode,
    .check = dgc_check,
    .decode = dgc_decode,
    .axpy = dgc_axpy,
    .fold = dgc_fold,
    .squares = dgc_squares,
};
