/* A balancer in front of the coordinators of the kill matrix: HAProxy, or nginx with its module
 * stream. It passes TLS on, and says with a PROXY header who the client is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_KILL_BALANCER_H
#define FED_KILL_BALANCER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum kill_balancer {
    KILL_NO_BALANCER = 0, /* devices know the coordinators' addresses */
    KILL_HAPROXY,
    KILL_NGINX,
    KILL_BALANCERS
} kill_balancer;

/** Is it installed? */
bool kill_balancer_is_there(kill_balancer which);

/** Write its configuration: it listens at `address`, at both ports, for the coordinators at
 * 127.0.0.FIRST to 127.0.0.(FIRST + count - 1). */
void kill_balancer_configure(kill_balancer which, const char *directory, const char *address,
                             const unsigned ports[2], unsigned first, unsigned count);

/** The path of its log. */
void kill_balancer_log(const char *directory, char *dst, size_t cap);

/** Become the balancer: one process. */
_Noreturn void kill_balancer_become(kill_balancer which, const char *directory);

#endif
