/* Copy rank 0's values to all ranks, by a sum over all ranks in which the others add zeros. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/apps/fedworker_share.h"

#include <stdlib.h>
#include <string.h>

#include "feddc/exchange.h"

fed_status fedworker_share(const feddc_link_vtable *link, const feddc_place *place, float *x,
                           size_t n, fed_error *err) {
    feddc_exchange_options o = {
        .link = link, .place = *place, .tensor = &n, .tensors = 1, .collective = "owners"};
    feddc_exchange *exchange = NULL;
    if (place->rank > 0) {
        memset(x, 0, n * sizeof *x);
        o.place.patience_ms = UINT32_MAX;
    }
    FED_TRY(feddc_exchange_open(&o, &exchange, err));
    const fed_status status = feddc_allreduce(exchange, 0, x, x, err);
    feddc_exchange_close(exchange, status == FED_OK);
    return status;
}

/* Each byte is sent as one float. */
fed_status fedworker_share_bytes(const feddc_link_vtable *link, const feddc_place *place,
                                 uint8_t *bytes, size_t n, fed_error *err) {
    float *x = calloc(n, sizeof *x);
    FED_REQUIRE(x != NULL, FED_ENOMEM);
    for (size_t k = 0; k < n; k++) {
        x[k] = bytes[k];
    }
    const fed_status status = fedworker_share(link, place, x, n, err);
    for (size_t k = 0; k < n && status == FED_OK; k++) {
        bytes[k] = (uint8_t)x[k];
    }
    free(x);
    return status;
}
