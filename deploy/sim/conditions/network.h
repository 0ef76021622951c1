/* The clients' links to the coordinator: how long requests and answers take in virtual time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_NETWORK_H
#define FEDSIM_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/*
 * A spec is a class, or a mixture of them, each with its share of the clients:
 *
 *     3g                             all clients
 *     3g:0.5+wifi:0.5                about half of them each; shares need not add up to 1
 *     up=1e6,down=5e6,latency=0.05   a class by its numbers: bit/s, bit/s, and seconds
 *
 *   class   up        down       latency   taken from
 *   3g      0.768e6   1.6e6      0.300     WebPageTest's profile "3G"
 *   4g      9e6       9e6        0.170     ... "4G"
 *   lte     12e6      12e6       0.070     ... "LTE"
 *   wifi    5e6       20e6       0.010     ... "FIOS" (20/5 Mbit/s, 4 ms), and 6 ms of radio
 *   lan     0         0          0         nothing takes any time
 * A rate of 0 is no limit. latency is a round trip; each way takes half of it. A new connection
 * takes two round trips more, for TCP and TLS 1.3. Clients share no link, and the coordinator's
 * link has no limit. The seed decides which client has which class.
 */
enum { SIM_LINKS = 8 }; /* classes of a mixture, at most */

typedef struct sim_link {
    double up_bps, down_bps; /* bit/s; 0: no limit */
    double latency_s;        /* round trip */
} sim_link;

typedef struct sim_network {
    size_t count;
    sim_link link[SIM_LINKS];
    double share[SIM_LINKS];
} sim_network;

/** Read a spec; NULL or "" means "lan". FED_EINVAL: *err says what is wrong. */
fed_status sim_network_parse(const char *spec, sim_network *network, fed_error *err) FED_CHECKED;

/** Draw client k's link from the seed. */
sim_link sim_network_draw(const sim_network *network, uint64_t seed, uint32_t k);

/** Return after how many microseconds `bytes` arrive, half a round trip included. */
int64_t sim_link_up_us(const sim_link *link, uint64_t bytes);
int64_t sim_link_down_us(const sim_link *link, uint64_t bytes);
/** How long a new connection takes, in microseconds. */
int64_t sim_link_connect_us(const sim_link *link);

#endif
