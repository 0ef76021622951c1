/* Can other machines reach what --listen, --join and --host name? */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDWORKER_ADDRESS_H
#define FEDWORKER_ADDRESS_H

#include "fedclient/apps/fedworker_options.h"

/** Check the addresses, and print on standard error if only this machine reaches them. Errors:
 * FED_EINVAL other machines would be told an address at which they do not reach this one. */
fed_status fedworker_address_check(const fedworker_options *o, fed_error *err) FED_CHECKED;

#endif
