/* Sockets of the control connection, by "host:port" or "[host]:port". */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_ENDPOINT_H
#define FEDDC_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"

enum { FEDDC_ENDPOINT = 128 }; /* characters of an address */

/** Listen. bound: the address with the port that it got, where port 0 was asked for. Errors:
 * FED_EINVAL the text is no address; FED_ENET */
fed_status feddc_endpoint_listen(const char *address, int *fd, char bound[FEDDC_ENDPOINT],
                                 fed_error *err) FED_CHECKED;

/** Connect, trying again for up to ms. Errors: FED_EINVAL the text is no address; FED_ENET */
fed_status feddc_endpoint_connect(const char *address, int64_t ms, int *fd,
                                  fed_error *err) FED_CHECKED;

/** A listener on a free port of `host`; NULL: of the address from which fd is connected. */
fed_status feddc_endpoint_beside(int fd, const char *host, int *listener,
                                 char bound[FEDDC_ENDPOINT], fed_error *err) FED_CHECKED;

/** The host at the other end has acknowledged something within ms. Where the system does not say:
 * true. */
bool feddc_endpoint_acks(int fd, uint32_t ms);

#endif
