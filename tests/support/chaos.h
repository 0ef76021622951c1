/* A federation over real TLS in which everything that can go wrong does: its processes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CHAOS_H
#define FED_CHAOS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fedserver/operator.h"

/** What all processes of a run see. The board lies in shared memory. */
typedef struct chaos_board {
    atomic_uint front, devices;             /* the coordinator's ports; 0: not up yet */
    atomic_uint proxy_front, proxy_devices; /* the ports of the proxy, whose links are bad */
    atomic_int database_dies; /* 1: a coordinator may end because its store was lost */
    atomic_int storm;         /* 0: links are good, and each request is sent once */
    atomic_int over;          /* 1: the helper processes end */
    atomic_llong clock_ahead_ms;
    /* what happened */
    atomic_uint lines, broken_lines, slow_lines, stalled_lines, loris;
    atomic_uint repeated, stale, lost_answers;    /* requests */
    atomic_uint enrolled, finished, acknowledged; /* devices; updates */
    atomic_uint round, given, counted; /* of the newest round that a device was told: its number,
                                          places that were given, updates acknowledged */
} chaos_board;

typedef struct chaos_run {
    chaos_board *board;
    char directory[300];               /* holds coordinator/, device0/ ... and device0.log ... */
    uint16_t front_port, devices_port; /* the coordinator's in each of its lives; 0: any */
    uint64_t seed;
    uint32_t wait_most_ms; /* devices ask again after this at the latest, so that the test ends
                              soon */
    char ca[4096];         /* PEM */
    uint32_t piece_bytes;  /* of the devices' client; 0: its default */
    const char *servers;   /* devices know these addresses, and use no proxy; NULL: the coordinator
                              of the board */
    unsigned slots;        /* of each device; above 1: each device takes part in all tasks */
    int far;               /* a descriptor of the network beyond a link of limited rate; -1: none */
} chaos_run;

/** One device of so many is in the far network. It reaches the coordinator by that address, without
 * a proxy. */
enum { CHAOS_FAR_EVERY = 4 };
#define CHAOS_NEAR "10.99.0.1"

/**
 * Put this process and its children into a network of their own, and open a second one beyond a
 * link that `devices` share. Where the system does not allow it, print a notice and go on without.
 */
void chaos_net_open(chaos_run *run, unsigned devices);

/** If device k belongs to the far network, enter that network. Returns whether the device does. */
bool chaos_net_is_far(const chaos_run *run, unsigned k);
void chaos_net_enter(const chaos_run *run);

/** How often a packet to the devices had to wait for the link, and how many bytes the link carried.
 */
unsigned long chaos_net_held_back(const chaos_run *run, unsigned long *bytes);

/** The exit status of a device that has not finished the task. */
enum { CHAOS_AGAIN = 3, CHAOS_WANTS_A_PERSON = 4 };

/* The main functions of the child processes. None of them returns. */

/** The coordinator on its sockets. Ports that are 0 become free ones, which it writes to the board.
 */
_Noreturn void chaos_coordinator(const chaos_run *run);

/** A device: it steps until it knows that the task is over. life: how often it was started before.
 * The device writes each answer that acknowledges an update to its log before the client sees it.
 */
_Noreturn void chaos_device(const chaos_run *run, unsigned k, unsigned life,
                            const char token[FEDSERVER_TOKEN]);

/** The proxy between devices and coordinator: some connections break, some are slow, some stall. */
_Noreturn void chaos_proxy(const chaos_run *run);

/** Connections that send a byte now and then, and never a whole request. */
_Noreturn void chaos_loris(const chaos_run *run, unsigned connections);

/* a record: kind, u32 size, bytes */
enum { CHAOS_LOG_UPDATE = 'U', CHAOS_LOG_VERSION = 'V', CHAOS_LOG_TRAINING = 'T' };

#endif
