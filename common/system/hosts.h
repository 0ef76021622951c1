/* Write a server's names and addresses in the format of its certificate. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_HOSTS_H
#define FED_HOSTS_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/** The most bytes of the encoded hosts. */
enum { FED_HOSTS_DER = 1024 };

/**
 * Write X.509's subjectAltName in DER: a dNSName or iPAddress for each host, in their order.
 *
 * hosts  ended by NULL; at least one
 * Errors: FED_EINVAL there is none, or one is neither a host name nor an address; FED_ENOSPC there
 * are too many.
 */
fed_status fed_hosts_write(const char *const *hosts, uint8_t der[FED_HOSTS_DER], size_t *len,
                           fed_error *err) FED_CHECKED;

#endif
