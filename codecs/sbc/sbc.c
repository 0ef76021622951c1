/* sbc: the positions of the largest values of one sign, and their mean instead of each value.
 * Format: docs/codec-formats.md#sbc   Paper: SBC, algorithms 2 to 4 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/select.h"
#include "codecs/prim/sparse.h"
#include "codecs/registry.h"

static const fedcodec_sparse KIND = FEDCODEC_SPARSE_MEAN;

FEDCODEC_SPARSE_FUNCTIONS(KIND)
FEDCODEC_SPARSE_BOUND(KIND)

static const fedcodec_param sbc_params[] = {
    FEDCODEC_SPARSE_PARAM(0.01), FEDCODEC_POS_PARAM, {.key = NULL}};

static size_t sbc_work_size(const double *param, size_t n) {
    return fedcodec_select_work_size(n, fedcodec_select_most(param[0], n));
}

static fed_status sbc_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_chosen positive, negative;
    FED_TRY(
        fedcodec_select(job, fedcodec_select_most(job->param[0], job->n), &positive, &negative));
    double up = fedcodec_mean_magnitude(positive), down = fedcodec_mean_magnitude(negative);
    bool rises = up >= down;
    return fedcodec_sparse_put(KIND, job, job->param[0], rises ? positive : negative,
                               rises ? up : -down, len);
}

const fedcodec_vtable FEDCODEC_VTABLE(sbc) = {
    .id = FEDCODEC_ID_sbc,
    .name = "sbc",
    .about = "where the largest values of one sign are, and their mean (SBC)",
    .params = sbc_params,
    .work_size = sbc_work_size,
    .encode = sbc_encode,
    FEDCODEC_SPARSE_MEMBERS,
};
