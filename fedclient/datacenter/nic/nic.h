/* The network card of a gang, as an option names it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_NIC_H
#define FEDDC_NIC_H

#include "fed/error.h"

typedef enum feddc_nic_kind {
    FEDDC_NIC_NONE = 0,
    FEDDC_NIC_INLINE, /* this process rounds what it sends */
    FEDDC_NIC_PACKET  /* a card does, on the marked connections of link tcp */
} feddc_nic_kind;

typedef struct feddc_nic {
    feddc_nic_kind kind;
    int e; /* values under 2^-e become 0 on their way */
} feddc_nic;

/** "inline", "packet:e=8"; NULL: none. Errors: FED_EINVAL */
fed_status feddc_nic_parse(const char *spec, feddc_nic *nic, fed_error *err) FED_CHECKED;

#endif
