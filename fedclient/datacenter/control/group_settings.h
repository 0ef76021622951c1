/* The settings that all members of a worker group must share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_GROUP_SETTINGS_H
#define FEDDC_GROUP_SETTINGS_H

#include "feddc/control.h"

/** FED_EINVAL: the settings are too long. NULL is allowed. */
fed_status feddc_group_settings_check(const char *settings, fed_error *err) FED_CHECKED;

/** Return whether a member's settings are those of the worker group. If not, why[cap] gets a
 * sentence that says what differs. The settings may hold any bytes; the sentence holds printable
 * ones. */
bool feddc_group_settings_equal(const char *member, const char *group, char *why, size_t cap);

#endif
