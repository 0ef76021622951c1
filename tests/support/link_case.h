/* Contract tests that every link between workers must pass. In a case, each rank of a group has an
 * open link. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LINK_CASE_H
#define LINK_CASE_H

#include "feddc/link.h"

typedef struct link_entry {
    const feddc_link_vtable *link;
    feddc_place place;
    void *self;      /* the open link; NULL once a case has closed it */
    uint32_t met;    /* number of ranks that have finished the case */
    char fault[240]; /* "": none */
} link_entry;

/** Each rank calls play in a thread or process of its own. All waits are limited. */
typedef struct link_case {
    const char *name;
    bool abrupt; /* true: a rank leaves without a goodbye, unlike MPI's ranks */
    void (*play)(link_entry *entry);
} link_case;

/** Return the k-th case; NULL after the last. */
const link_case *link_case_at(size_t k);

/** Open the rank's link, run the case and close the link. */
void link_case_run(const link_case *one, link_entry *entry);

#endif
