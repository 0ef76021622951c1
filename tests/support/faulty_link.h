/* A link of workers around another link, with faults: one rank fails at its k-th event, and events
 * are late or out of order. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULTY_LINK_H
#define FAULTY_LINK_H

#include "feddc/link.h"

enum { FAULTY_RANKS = 64 };

/** All ranks of the process share one plan. */
typedef struct faulty_plan {
    const feddc_link_vtable *inner;
    uint32_t victim;
    uint64_t at;  /* number of the victim's events before it fails; 0: no rank fails */
    bool orderly; /* the failing rank says goodbye to its peers */
    uint32_t delay_us;
    uint32_t mix; /* up to this many events, at most 16, of different ranks change places */
    uint64_t seed;

    uint64_t events[FAULTY_RANKS]; /* result: each rank's events but FEDDC_WOKEN and _NOTHING */
} faulty_plan;

/**
 * Return a link with these faults. The plan must outlive everything opened by the link. The next
 * call replaces the plan.
 *
 * The failed rank's calls of send and wait return FED_EIO from then on. Its peers see it go when it
 * closes the link: its messages come in order, and its FEDDC_GONE comes last.
 */
const feddc_link_vtable *faulty_link(faulty_plan *plan);

#endif
