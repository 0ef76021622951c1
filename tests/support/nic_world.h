/* Two hosts with offload NICs and a bad line between them: network namespaces of this machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIC_WORLD_H
#define NIC_WORLD_H

#include <pthread.h>

#include "bad_line.h"

enum { NIC_HOSTS = 2 };

/** Host 0 is 10.79.0.1 and fd79::1, host 1 is 10.79.0.2 and fd79::2. */
typedef struct nic_world {
    char space[NIC_HOSTS + 1][32]; /* names of the namespaces; the last is the line's */
    const char *device[NIC_HOSTS]; /* with the addresses: nic0, or eth0 of a host without NIC */
    pid_t nic[NIC_HOSTS];          /* fednic; 0: none */
    char directory[300];           /* what the NICs print */
    int home;                      /* the caller's namespace */
    bad_line line;
    bad_rates rates;
    int wires[NIC_HOSTS]; /* packet sockets at the line's ends */
    atomic_bool stop;
    pthread_t thread;
    bool runs; /* the line */
} nic_world;

/** Whether this machine and user can have it. If not, *why is a sentence. */
bool nic_world_possible(const char **why);

/** Lines without faults; each host with a NIC or without. */
void nic_world_open(nic_world *w, bool card0, bool card1);

/** Also of a world that opened in part. The NICs must have lived until now, and must end in
 * order. */
void nic_world_close(nic_world *w);

/** A socket in a host's network. */
int nic_world_socket(const nic_world *w, int host, int family, int type, int protocol);

/** Packet sockets at the line's ends, for strangers: bad_line_socket. */
void nic_world_line_sockets(const nic_world *w, int sockets[NIC_HOSTS]);

/** Run a shell's command in a host's network, or in the line's (NIC_HOSTS); the test fails if the
 * command does. */
void nic_world_shell(const nic_world *w, int host, const char *command);

/** What a host's NIC says about itself: fednic --stats. */
void nic_world_stats(const nic_world *w, int host, char *text, size_t cap);

/** The host's NIC ends, or is killed, and begins anew: it knows no connection. */
void nic_world_restart_nic(nic_world *w, int host);
void nic_world_kill_nic(nic_world *w, int host);

/** The line is good again. */
void nic_world_calm(nic_world *w);

#endif
