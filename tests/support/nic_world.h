/* Two hosts with offload NICs and a bad line between them, as network namespaces of this
 * machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIC_WORLD_H
#define NIC_WORLD_H

#include <pthread.h>

#include "bad_line.h"

enum { NIC_HOSTS = 2 };

/** Host 0 is 10.79.0.1 and fd79::1, host 1 is 10.79.0.2 and fd79::2. */
typedef struct nic_world {
    char space[NIC_HOSTS + 1][32]; /* names of the namespaces; the last one is the line's */
    const char *device[NIC_HOSTS]; /* nic0, or eth0 of a host without NIC */
    pid_t nic[NIC_HOSTS];          /* process IDs; 0: none */
    char directory[300];
    int home; /* the caller's namespace */
    bad_line line;
    bad_rates rates;
    int wires[NIC_HOSTS]; /* packet sockets at the ends of the line */
    atomic_bool stop;
    pthread_t thread;
    bool runs;
} nic_world;

/** Can this process make network namespaces? If not, *why says why. */
bool nic_world_possible(const char **why);

/** Make the hosts, each with or without a NIC, and a line without faults. */
void nic_world_open(nic_world *w, bool card0, bool card1);

/** End everything. The test fails if a NIC died before, or ends with an error. */
void nic_world_close(nic_world *w);

int nic_world_socket(const nic_world *w, int host, int family, int type, int protocol);

/** Open packet sockets at the line's ends. */
void nic_world_line_sockets(const nic_world *w, int sockets[NIC_HOSTS]);

/** Run a shell command, which must succeed, in a host's namespace. Host NIC_HOSTS: the line's
 * namespace. */
void nic_world_shell(const nic_world *w, int host, const char *command);

/** Write the output of `fednic --stats` for a host's NIC to text. */
void nic_world_stats(const nic_world *w, int host, char *text, size_t cap);

/** End or kill a host's NIC, and start it again. */
void nic_world_restart_nic(nic_world *w, int host);
void nic_world_kill_nic(nic_world *w, int host);

void nic_world_calm(nic_world *w);

#endif
