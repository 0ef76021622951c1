/* threshold: all values of at least a given magnitude, and their positions (hard threshold).
 * Format: docs/codec-formats.md#threshold   Paper: Sahu et al. 2021, section 4 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/select.h"
#include "codecs/prim/sparse.h"
#include "codecs/registry.h"

static const fedcodec_sparse KIND = FEDCODEC_SPARSE_VALUES;

FEDCODEC_SPARSE_FUNCTIONS(KIND)

/* t has no preset: which values are large depends on the learning rate and the local steps. */
static const fedcodec_param threshold_params[] = {
    {.key = "t",
     .preset = 0.0,
     .low = 1e-6,
     .high = 16.0,
     .help = "least magnitude sent, such as 0.005"},
    FEDCODEC_POS_PARAM,
    FEDCODEC_FORM_PARAM,
    {.key = NULL},
};

/* Any number of values may reach the threshold t. So a message needs room for all n values, 4.25 n
 * bytes, and the lists in the work memory take 8 n bytes. Where memory is short, use dgc or topk,
 * whose parameter p bounds both.
 *
 * The bound of the positions is two bits a value. */
static size_t sparse_bound(const double *param, size_t n) {
    return fedcodec_sparse_bound_of(KIND, param, 1.0, n, n);
}

static size_t threshold_work_size(const double *param, size_t n) {
    (void)param;
    return fedcodec_select_above_work_size(n);
}

static fed_status threshold_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_chosen chosen;
    FED_TRY(fedcodec_select_above(job, (float)job->param[0], &chosen));
    fedcodec_values_keep((fedcodec_form)job->param[2], &chosen);
    const double p = job->n > 0 ? (double)chosen.count / (double)job->n : 0.0;
    return fedcodec_sparse_put(KIND, job, p, chosen, 0.0, len);
}

const fedcodec_vtable FEDCODEC_VTABLE(threshold) = {
    .id = FEDCODEC_ID_threshold,
    .name = "threshold",
    .about = "all values of at least a magnitude and where they are (hard threshold)",
    .params = threshold_params,
    .work_size = threshold_work_size,
    .encode = threshold_encode,
    FEDCODEC_SPARSE_MEMBERS,
};
