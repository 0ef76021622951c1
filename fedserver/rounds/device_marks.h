/* What devices have said of a task, read from the store: declines, and measured versions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DEVICE_MARKS_H
#define FEDSERVER_DEVICE_MARKS_H

#include "fedserver/rounds/rounds.h"

/** Mark the devices that have declined the task. The devices must be loaded. */
fed_status fedserver_declines_load(const fedserver_rounds *rounds, fedserver_training *training,
                                   fed_error *err) FED_CHECKED;

/** Mark which version of the task each evaluating device measured last. A device's row has one
 * version, of whichever task. So after a restart a device may measure a version of another task
 * again, with the same result. */
fed_status fedserver_measured_load(const fedserver_rounds *rounds, fedserver_training *training,
                                   fed_error *err) FED_CHECKED;

#endif
