/* A sorted list of devices with a number for each, such as when the device declined a task. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_MARKS_H
#define FEDSERVER_MARKS_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

typedef struct fedserver_mark {
    int64_t device;
    int64_t value;
} fedserver_mark;

/** The marks, in the order of the devices' ids. A list of zeros is empty. */
typedef struct fedserver_marks {
    fedserver_mark *items;
    size_t count, cap;
} fedserver_marks;

void fedserver_marks_free(fedserver_marks *marks);

/** Set the device's value in place of an earlier one. FED_ENOMEM: nothing has changed. */
fed_status fedserver_marks_set(fedserver_marks *marks, int64_t device, int64_t value,
                               fed_error *err) FED_CHECKED;

/** The device's value, or `none` if the device has no value. */
int64_t fedserver_marks_get(const fedserver_marks *marks, int64_t device, int64_t none);

#endif
