/* What every link must keep: each case is played by all ranks of a worker group, on a link that is
 * open. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LINK_CASE_H
#define LINK_CASE_H

#include "feddc/link.h"

/** A rank of a worker group that plays a case. */
typedef struct link_entry {
    const feddc_link_vtable *link;
    feddc_place place;
    void *self;      /* the open link; a case that closes it leaves NULL */
    uint32_t met;    /* ranks that are through with the case */
    char fault[240]; /* what this rank found wrong; "": nothing */
} link_entry;

/** Each rank calls play with its own seat, in a thread or a process of its own. Each wait in it is
 * bounded. */
typedef struct link_case {
    const char *name;
    bool abrupt; /* a rank leaves without a goodbye, which MPI cannot */
    void (*play)(link_entry *entry);
} link_case;

/** The k-th case; NULL past the last. */
const link_case *link_case_at(size_t k);

/** Open the seat's link, play, and close it: orderly if nothing was wrong. */
void link_case_run(const link_case *one, link_entry *entry);

#endif
