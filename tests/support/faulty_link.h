/* A link around another one: it loses a rank at its k-th event, and delays or reorders events. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULTY_LINK_H
#define FAULTY_LINK_H

#include "feddc/link.h"

enum { FAULTY_RANKS = 64 };

/** What goes wrong. All ranks of the process share one plan. */
typedef struct faulty_plan {
    const feddc_link_vtable *inner;
    uint32_t victim;   /* the rank that is lost */
    uint64_t at;       /* when its link has told it of so many events; 0: none is lost */
    bool orderly;      /* it says goodbye */
    uint32_t delay_us; /* each event comes up to so much later */
    uint32_t mix;      /* events of different ranks change places among so many, at most 16 */
    uint64_t seed;

    uint64_t events[FAULTY_RANKS]; /* out: what each rank was told of, but for WOKEN and NOTHING */
} faulty_plan;

/**
 * The link that does so. plan outlives what is opened by it; the next call replaces it.
 *
 * The lost rank's own calls of send and wait fail with FED_EIO from then on, and when it closes the
 * link its peers see it go.
 * Messages of one rank stay in their order, and its GONE comes after them.
 */
const feddc_link_vtable *faulty_link(faulty_plan *plan);

#endif
