/* A link around another one, whose receivers round what NICs would round. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIC_LINK_H
#define NIC_LINK_H

#include <stdatomic.h>

#include "feddc/link.h"

/** What is on the way. All ranks of the process share one plan. */
typedef struct nic_plan {
    const feddc_link_vtable *inner;
    uint32_t bare;       /* a rank that has no NIC; 0: each has one */
    int e;               /* values under 2^-e become 0 */
    atomic_uint rounded; /* out: messages that were rounded */
    atomic_uint missed;  /* out: of ranks that were not told to mark floats */
} nic_plan;

/**
 * The link that does so; it calls itself "tcp", as an exchange wants it for the nic packet. Each
 * FEDDC_FLOATS message arrives rounded. plan outlives what is opened by it; the next call replaces
 * it.
 */
const feddc_link_vtable *nic_link(nic_plan *plan);

#endif
