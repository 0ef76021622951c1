/* A federation over real TLS in which everything that can go wrong does: its processes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CHAOS_H
#define FED_CHAOS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fedserver/operator.h"

/** What all processes of a run see: in shared memory. */
typedef struct chaos_board {
    atomic_uint front, devices;             /* the coordinator's ports; 0: not up yet */
    atomic_uint proxy_front, proxy_devices; /* ... by way of bad lines */
    atomic_int storm;                       /* 0: lines are good, requests are sent once */
    atomic_int over;                        /* helpers end */
    atomic_llong clock_ahead_ms;
    /* what happened */
    atomic_uint lines, broken_lines, slow_lines, stalled_lines, loris;
    atomic_uint repeated, stale, lost_answers;    /* requests */
    atomic_uint enrolled, finished, acknowledged; /* devices; updates */
} chaos_board;

typedef struct chaos_run {
    chaos_board *board;
    char directory[300]; /* holds coordinator/, device0/ ... and device0.log ... */
    uint64_t seed;
    uint32_t wait_most_ms; /* devices ask again after this at the latest: nobody has all day */
    char ca[4096];         /* PEM */
    int far; /* a descriptor of the network behind a line with a bandwidth; -1: none */
} chaos_run;

/** One device of so many lives there, and reaches the coordinator by that address, by no proxy. */
enum { CHAOS_FAR_EVERY = 4 };
#define CHAOS_NEAR "10.99.0.1"

/**
 * From now on this process and its children are in a network of their own, and a second one lies
 * behind a line that `devices` share. Where the system does not allow it, say so, and go on
 * without.
 */
void chaos_net_open(chaos_run *run, unsigned devices);

/** Does device k live there? Then it enters. */
bool chaos_net_is_far(const chaos_run *run, unsigned k);
void chaos_net_enter(const chaos_run *run);

/** How often a packet to the devices had to wait for the line; and the bytes that went there. */
unsigned long chaos_net_held_back(const chaos_run *run, unsigned long *bytes);

/** How a device ends that is not finished. */
enum { CHAOS_AGAIN = 3, CHAOS_WANTS_A_PERSON = 4 };

/* Whole lives of children; none returns. */

/** The coordinator on its sockets; ports 0: any free ones, which come on the board. */
_Noreturn void chaos_coordinator(const chaos_run *run);

/** A device: steps until it knows that the task is over. life: how often it was started before.
 * Each answer that acknowledges an update is written to its log before the client hears of it. */
_Noreturn void chaos_device(const chaos_run *run, unsigned k, unsigned life,
                            const char token[FEDSERVER_TOKEN]);

/** Between devices and coordinator: some lines break, some are slow, some stall. */
_Noreturn void chaos_proxy(const chaos_run *run);

/** Connections that send a byte now and then, and never a whole request. */
_Noreturn void chaos_loris(const chaos_run *run, unsigned connections);

enum { CHAOS_LOG_UPDATE = 'U', CHAOS_LOG_VERSION = 'V' }; /* a record: kind, u32 size, bytes */

#endif
