/* The options --backend and --device, which choose what computes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_APPS_DEVICE_OPTION_H
#define FEDCLIENT_APPS_DEVICE_OPTION_H

#include "fed/error.h"

/** If --device is given, set *backend to the device's name, which is also the name of a backend.
 * device and *backend may be NULL. FED_EINVAL: both are given, or one of them does not exist. */
fed_status device_option_settle(const char *device, const char **backend,
                                fed_error *err) FED_CHECKED;

#endif
