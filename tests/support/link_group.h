/* A worker group whose ranks are threads of the test, on any link. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LINK_GROUP_H
#define LINK_GROUP_H

#include "feddc/link.h"

enum { LINK_GROUP_RANKS = 16 };

typedef struct link_group {
    uint32_t size;
    feddc_place place[LINK_GROUP_RANKS];
    struct feddc_hub *hub;
    char address[LINK_GROUP_RANKS][32];
    const char *addresses[LINK_GROUP_RANKS];
    uint8_t secret[FEDDC_SECRET];
} link_group;

/** Can the ranks be threads of one process? */
bool link_group_fits(const feddc_link_vtable *link);

/** Make a place for each of `size` ranks to open the link. */
void link_group_open(link_group *group, const feddc_link_vtable *link, uint32_t size);

/** Free the places. Call it after the last rank has closed its link. */
void link_group_close(link_group *group);

unsigned link_group_connections(const char *address);

/** Run part(entries + r * each) in a thread for each rank r, and wait for all. each: bytes of an
 * entry. */
void link_group_run(uint32_t size, void (*part)(void *entry), void *entries, size_t each);

#endif
