/* dgc: the values of largest magnitude, and their positions (gradient dropping).
 * Format: docs/codec-formats.md#dgc   Paper: Aji and Heafield 2017; Lin et al. 2018, section 3 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/select.h"
#include "codecs/prim/sparse.h"
#include "codecs/registry.h"

static const fedcodec_sparse KIND = FEDCODEC_SPARSE_VALUES;

FEDCODEC_SPARSE_FUNCTIONS(KIND)
FEDCODEC_SPARSE_BOUND(KIND)

static const fedcodec_param dgc_params[] = {
    FEDCODEC_SPARSE_PARAM(0.001), FEDCODEC_POS_PARAM, FEDCODEC_FORM_PARAM, {.key = NULL}};

static fed_status dgc_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_chosen chosen;
    FED_TRY(fedcodec_select_magnitude(job, fedcodec_select_most(job->param[0], job->n), &chosen));
    fedcodec_values_keep((fedcodec_form)job->param[2], &chosen);
    return fedcodec_sparse_put(KIND, job, job->param[0], chosen, 0.0, len);
}

const fedcodec_vtable FEDCODEC_VTABLE(dgc) = {
    .id = FEDCODEC_ID_dgc,
    .name = "dgc",
    .about = "the values of largest magnitude and where they are (gradient dropping, DGC)",
    .params = dgc_params,
    .work_size = fedcodec_select_magnitude_work,
    .encode = dgc_encode,
    FEDCODEC_SPARSE_MEMBERS,
};
