/* Open the sockets of the control connection. Addresses are "host:port" or "[host]:port". */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_ENDPOINT_H
#define FEDDC_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"

enum { FEDDC_ENDPOINT = 128 };

/** Listen at an address. bound: the same address, with the port that the system chose for port 0.
 * Errors: FED_EINVAL the text is no address, or too long; FED_ENET; FED_EIO */
fed_status feddc_endpoint_listen(const char *address, int *fd, char bound[FEDDC_ENDPOINT],
                                 fed_error *err) FED_CHECKED;

/** Connect; failed attempts are repeated for ms milliseconds. Errors: FED_EINVAL the text is no
 * address; FED_ENET */
fed_status feddc_endpoint_connect(const char *address, int64_t ms, int *fd,
                                  fed_error *err) FED_CHECKED;

/** Listen on a free port of `host`, or (NULL) of the local address of the socket fd. */
fed_status feddc_endpoint_beside(int fd, const char *host, int *listener,
                                 char bound[FEDDC_ENDPOINT], fed_error *err) FED_CHECKED;

/** Return whether the other host has acknowledged data within the last ms milliseconds; true if the
 * system does not tell. */
bool feddc_endpoint_acks(int fd, uint32_t ms);

#endif
