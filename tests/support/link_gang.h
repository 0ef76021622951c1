/* A gang whose ranks are threads of the test: the place of each rank, for any link. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LINK_GANG_H
#define LINK_GANG_H

#include "feddc/link.h"

enum { LINK_GANG_RANKS = 16 };

typedef struct link_gang {
    uint32_t size;
    feddc_place place[LINK_GANG_RANKS];
    struct feddc_hub *hub;
    char address[LINK_GANG_RANKS][32];
    const char *addresses[LINK_GANG_RANKS];
    uint8_t secret[FEDDC_SECRET];
} link_gang;

/** false: the link takes one rank a process. */
bool link_gang_fits(const feddc_link_vtable *link);

/** Places for `size` ranks. Each of them is for one open. Ends the test if a port cannot be had. */
void link_gang_open(link_gang *gang, const feddc_link_vtable *link, uint32_t size);

/** After the last rank has closed its link. */
void link_gang_close(link_gang *gang);

/** How many connections there are to a rank's address. */
unsigned link_gang_connections(const char *address);

/** Run part(seats + r * each) for each rank, side by side, and wait for all of them. */
void link_gang_run(uint32_t size, void (*part)(void *seat), void *seats, size_t each);

#endif
