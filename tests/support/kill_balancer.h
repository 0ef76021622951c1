/* A load balancer in front of the kill matrix's coordinators: HAProxy, or nginx with its stream
 * module. It does not end TLS. A PROXY header tells the coordinator the client's address. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_KILL_BALANCER_H
#define FED_KILL_BALANCER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum kill_balancer {
    KILL_NO_BALANCER = 0, /* devices know the addresses of the coordinators */
    KILL_HAPROXY,
    KILL_NGINX,
    KILL_BALANCERS
} kill_balancer;

/** Is this balancer installed? */
bool kill_balancer_is_there(kill_balancer which);

/** Write the balancer's configuration: it listens at `address` on both ports, and forwards to the
 * coordinators at 127.0.0.FIRST to 127.0.0.(FIRST + count - 1). */
void kill_balancer_configure(kill_balancer which, const char *directory, const char *address,
                             const unsigned ports[2], unsigned first, unsigned count);

void kill_balancer_log(const char *directory, char *dst, size_t cap);

_Noreturn void kill_balancer_become(kill_balancer which, const char *directory);

#endif
