/* A link around another link, with faults: a rank fails, or events are late or in another order. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULTY_LINK_H
#define FAULTY_LINK_H

#include "feddc/link.h"

enum { FAULTY_RANKS = 64 };

/** All ranks of the process share one plan. */
typedef struct faulty_plan {
    const feddc_link_vtable *inner;
    uint32_t victim;
    uint64_t at; /* events of the victim before it fails; 0: no rank fails */
    bool orderly;
    uint32_t delay_us;
    uint32_t mix; /* size of the buffer from which the next event is drawn, at most 16; 0: as 1 */
    uint64_t seed;

    uint64_t events[FAULTY_RANKS]; /* result: number of each rank's events */
} faulty_plan;

/**
 * Return a link with these faults. The plan must outlive everything opened by the link. The next
 * call replaces the plan.
 *
 * After the failure, the victim's calls of send and wait return FED_EIO.
 */
const feddc_link_vtable *faulty_link(faulty_plan *plan);

#endif
