/* What rank 0 of a job of MPI tells the other ranks before an exchange of gradients is open. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDWORKER_SHARE_H
#define FEDWORKER_SHARE_H

#include "feddc/link.h"

/** x[n] of rank 0 becomes that of all ranks. An idle rank waits here for rank 0 without an end.
 * Errors: feddc_exchange_open's */
fed_status fedworker_share(const feddc_link_vtable *link, const feddc_place *place, float *x,
                           size_t n, fed_error *err) FED_CHECKED;

/** The same of bytes. */
fed_status fedworker_share_bytes(const feddc_link_vtable *link, const feddc_place *place,
                                 uint8_t *bytes, size_t n, fed_error *err) FED_CHECKED;

#endif
