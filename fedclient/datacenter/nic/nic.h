/* A worker group's compressing NIC: its option, and the NIC "inline" inside the process. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_NIC_H
#define FEDDC_NIC_H

#include <stddef.h>

#include "fed/error.h"
#include "feddc/link.h"

typedef enum feddc_nic_kind {
    FEDDC_NIC_NONE = 0,
    FEDDC_NIC_INLINE, /* this process rounds the floats that it sends */
    FEDDC_NIC_PACKET  /* a NIC rounds the floats on the marked connections of link tcp */
} feddc_nic_kind;

typedef struct feddc_nic {
    feddc_nic_kind kind;
    int e; /* error bound 2^-e */
} feddc_nic;

/** Parse a NIC's spec, such as "inline" or "packet:e=8"; NULL: no NIC. Errors: FED_EINVAL */
fed_status feddc_nic_parse(const char *spec, feddc_nic *nic, fed_error *err) FED_CHECKED;

/**
 * Wrap an open link: of each FEDDC_FLOATS message a rounded copy is sent
 * (fedcodec_bursts_round), everything else as it is. The sender's data is never changed.
 *
 * link, self  in: the open link; out: the wrapped one, whose close closes both. Unchanged after an
 *             error
 * most        bytes of the largest FEDDC_FLOATS message
 * Errors      FED_ENOMEM
 */
fed_status feddc_nic_wrap(const feddc_link_vtable **link, void **self, int e, size_t most,
                          fed_error *err) FED_CHECKED;

#endif
