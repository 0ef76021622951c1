/* A worker group whose ranks are threads of the test: the place of each rank, for any link. */
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

/** false: the link takes one rank a process. */
bool link_group_fits(const feddc_link_vtable *link);

/** Places for `size` ranks. Each of them is for one open. Ends the test if a port cannot be had. */
void link_group_open(link_group *group, const feddc_link_vtable *link, uint32_t size);

/** After the last rank has closed its link. */
void link_group_close(link_group *group);

/** How many connections there are to a rank's address. */
unsigned link_group_connections(const char *address);

/** Run part(seats + r * each) for each rank, side by side, and wait for all of them. */
void link_group_run(uint32_t size, void (*part)(void *entry), void *entries, size_t each);

#endif
