/* HAProxy as deploy/conf/haproxy.cfg has it, in front of a test's coordinators. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_HAPROXY_H
#define FED_HAPROXY_H

#include <stdbool.h>

#define FED_HAPROXY "/usr/sbin/haproxy"

/** What a test changes in the file. HAProxy listens at `address`, on the ports of fronts and of
 * devices, and forwards to coordinators at 127.0.0.FIRST to 127.0.0.(FIRST + count - 1). */
typedef struct fed_haproxy {
    const char *address, *ca; /* ca: the path of a coordinator's ca.pem */
    unsigned front, devices, first, count;
} fed_haproxy;

bool fed_haproxy_is_there(void);

/** Write the configuration to the file `name` in `directory`. */
void fed_haproxy_configure(const fed_haproxy *h, const char *directory, const char *name);

#endif
