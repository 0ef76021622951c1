/* A link around another link, which rounds received floats as offload NICs would. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIC_LINK_H
#define NIC_LINK_H

#include <stdatomic.h>

#include "feddc/link.h"

/** The NICs of a test. All ranks of the process share them. */
typedef struct nic_plan {
    const feddc_link_vtable *inner;
    uint32_t bare;       /* the rank without a NIC; 0: none */
    int e;               /* values with magnitude below 2^-e become 0 */
    atomic_uint rounded; /* number of rounded messages */
    atomic_uint missed;  /* number of float messages that were not marked */
} nic_plan;

/** Return a link with these NICs, named "tcp". The plan must outlive everything opened by the link.
 * The next call replaces the plan. */
const feddc_link_vtable *nic_link(nic_plan *plan);

#endif
