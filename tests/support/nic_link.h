/* A link around another link. Its receivers round floats as offload NICs between the ranks
 * would. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIC_LINK_H
#define NIC_LINK_H

#include <stdatomic.h>

#include "feddc/link.h"

/** The NICs of a test. All ranks of the process share one plan. */
typedef struct nic_plan {
    const feddc_link_vtable *inner;
    uint32_t bare;       /* the rank without a NIC; 0: each rank has one */
    int e;               /* values with magnitude below 2^-e become 0 */
    atomic_uint rounded; /* result: number of rounded messages */
    atomic_uint missed;  /* result: number of float messages of links opened without place.mark */
} nic_plan;

/** Return a link with these NICs. It is named "tcp", because an exchange accepts the NIC `packet`
 * only with that link. Each message with FEDDC_FLOATS arrives rounded. The plan must outlive
 * everything opened by the link. The next call replaces the plan. */
const feddc_link_vtable *nic_link(nic_plan *plan);

#endif
