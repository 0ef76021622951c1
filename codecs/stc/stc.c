/* stc: the positions of the values of largest magnitude, their signs, and one magnitude for all of
 * them.
 * Format: docs/codec-formats.md#stc   Paper: Sattler et al. 2019, algorithm 1 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/select.h"
#include "codecs/prim/sparse.h"
#include "codecs/registry.h"

static const fedcodec_sparse KIND = FEDCODEC_SPARSE_SIGNS;

FEDCODEC_SPARSE_FUNCTIONS(KIND)
FEDCODEC_SPARSE_BOUND(KIND)

static const fedcodec_param stc_params[] = {
    FEDCODEC_SPARSE_PARAM(0.01), FEDCODEC_POS_PARAM, {.key = NULL}};

static fed_status stc_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_chosen chosen;
    FED_TRY(fedcodec_select_magnitude(job, fedcodec_select_most(job->param[0], job->n), &chosen));
    return fedcodec_sparse_put(KIND, job, job->param[0], chosen, fedcodec_mean_magnitude(chosen),
                               len);
}

const fedcodec_vtable FEDCODEC_VTABLE(stc) = {
    .id = FEDCODEC_ID_stc,
    .name = "stc",
    .about = "where the values of largest magnitude are, their signs, and their mean (STC)",
    .params = stc_params,
    .work_size = fedcodec_select_magnitude_work,
    .encode = stc_encode,
    FEDCODEC_SPARSE_MEMBERS,
};
