/* The processes of the chaos test: a federation over real TLS whose links, processes and disk
 * fail. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CHAOS_H
#define FED_CHAOS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fedserver/operator.h"

/** What all processes of a run share. It lies in shared memory. */
typedef struct chaos_board {
    atomic_uint front, devices;             /* the coordinator's ports; 0: not open yet */
    atomic_uint proxy_front, proxy_devices; /* the ports of the proxy, which makes links bad */
    atomic_int database_dies;               /* 1: a coordinator may end because its store failed */
    atomic_int storm; /* 1: links fail and devices repeat requests; 0: neither happens */
    atomic_int over;  /* 1: the helper processes end */
    atomic_llong clock_ahead_ms;
    atomic_uint lines, broken_lines, slow_lines, stalled_lines, loris;
    atomic_uint repeated, stale, lost_answers;    /* repeated: updates sent twice */
    atomic_uint enrolled, finished, acknowledged; /* acknowledged: acknowledgements of updates */
    atomic_uint round, given, counted;            /* the newest round that a device was told of:
                                                     its number, slots given, updates
                                                     acknowledged */
} chaos_board;

typedef struct chaos_run {
    chaos_board *board;
    char directory[300];               /* holds coordinator/, device0/, ... and device0.log, ... */
    uint16_t front_port, devices_port; /* the coordinator's; 0: any that are free */
    uint64_t seed;
    uint32_t wait_most_ms; /* longest pause of a device between two steps */
    uint32_t train_ms;     /* how long a training takes at least */
    uint32_t hold_ms;      /* how long a check-in may be held; 0: 400 ms */
    char ca[4096];
    uint32_t piece_bytes; /* piece size of the devices' client; 0: its default */
    const char *servers;  /* addresses that devices use, without proxy; NULL: those of the board */
    uint32_t patience_ms; /* of the devices' transports; 0: the default */
    unsigned slots;
    int far; /* descriptor of the far network namespace; -1: none */
} chaos_run;

/** Every fourth device is in the far network. It reaches the coordinator at CHAOS_NEAR, without a
 * proxy. */
enum { CHAOS_FAR_EVERY = 4 };
#define CHAOS_NEAR "10.99.0.1"

/** Put this process and its children into a network namespace, and open a second one beyond a link
 * whose rate `devices` share. Where the system forbids that, print a notice and go on. */
void chaos_net_open(chaos_run *run, unsigned devices);

/** If device k belongs to the far network, enter that network. Returns whether the device does. */
bool chaos_net_is_far(const chaos_run *run, unsigned k);
void chaos_net_enter(const chaos_run *run);

/** Return how often a packet to the devices had to wait for the link. *bytes: bytes carried. */
unsigned long chaos_net_held_back(const chaos_run *run, unsigned long *bytes);

/** Exit statuses of an unfinished child: start it again, or fail the test. */
enum { CHAOS_AGAIN = 3, CHAOS_WANTS_A_PERSON = 4 };

/* The main functions of the child processes. None of them returns. */

/** Serve the coordinator, and write its ports to the board. */
_Noreturn void chaos_coordinator(const chaos_run *run);

/** Step a device until it knows that the task is over. life: how often the device was started
 * before. The device logs each answer that acknowledges an update before the client sees it. */
_Noreturn void chaos_device(const chaos_run *run, unsigned k, unsigned life,
                            const char token[FEDSERVER_TOKEN]);

/** Run the proxy, which breaks, slows or stalls some connections. */
_Noreturn void chaos_proxy(const chaos_run *run);

/** Hold connections open by sending a byte now and then, never a whole request (slow loris). */
_Noreturn void chaos_loris(const chaos_run *run, unsigned connections);

/* Kinds of records in a device's log. A record is its kind (1 byte), its size (u32) and its
 * bytes. */
enum { CHAOS_LOG_UPDATE = 'U', CHAOS_LOG_VERSION = 'V', CHAOS_LOG_TRAINING = 'T' };

#endif
