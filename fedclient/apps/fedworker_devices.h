/* fedworker devices: the GPUs of this machine, and what each lacks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_APPS_FEDWORKER_DEVICES_H
#define FEDCLIENT_APPS_FEDWORKER_DEVICES_H

#include "fed/bytes.h"
#include "fed/error.h"

/** What --help says of it. */
extern const char fedworker_devices_usage[];

/**
 * Run the command: argv[0] is "devices". A table is appended to *out: each device with its card,
 * memory and compute units, and why it can't be used, if so; then, for each kind without a device,
 * what is missing.
 * Errors: FED_EINVAL the command line; FED_ENOMEM.
 */
fed_status fedworker_devices(int argc, char **argv, fed_writer *out, fed_error *err) FED_CHECKED;

#endif
