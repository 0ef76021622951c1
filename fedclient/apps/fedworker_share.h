/* Copy values from rank 0 of a job of MPI, before an exchange of gradients is open. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDWORKER_SHARE_H
#define FEDWORKER_SHARE_H

#include "feddc/link.h"

/** Copy x[n] of rank 0 to x[n] of all ranks. The other ranks wait for rank 0 without a time limit.
 * Errors: those of feddc_exchange_open and feddc_allreduce. */
fed_status fedworker_share(const feddc_link_vtable *link, const feddc_place *place, float *x,
                           size_t n, fed_error *err) FED_CHECKED;

fed_status fedworker_share_bytes(const feddc_link_vtable *link, const feddc_place *place,
                                 uint8_t *bytes, size_t n, fed_error *err) FED_CHECKED;

#endif
