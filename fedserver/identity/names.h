/* Names of devices, as they and operators give them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_NAMES_H
#define FEDSERVER_NAMES_H

#include "fed/error.h"
#include "fedserver/stores/store.h"

/** As much of src as dst has room for, in whole characters, fit to be shown between quotes. */
void fedserver_text_take(char *dst, size_t cap, const char *src);

/** Take a name that a device gave itself: cut to what there is room for, and cleaned. */
void fedserver_device_call(fedserver_device *device, const char *name);

/** A name that an operator gives: FED_EINVAL where it is too long or not printable. */
fed_status fedserver_name_check(const char *name, char clean[FEDSERVER_NAME],
                                fed_error *err) FED_CHECKED;

#endif
