/* What devices have said of a task: declines, and measured versions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DEVICE_MARKS_H
#define FEDSERVER_DEVICE_MARKS_H

#include "fedserver/rounds/rounds.h"

/** Mark the devices that have declined the task, but for revoked ones. */
fed_status fedserver_declines_load(const fedserver_rounds *rounds, fedserver_training *training,
                                   fed_error *err) FED_CHECKED;

/** The version of the task that the evaluating device measured last; -1: none. A device's row has
 * one version, of whichever task. So after a restart a device may measure a version of another task
 * again, with the same result. */
int64_t fedserver_measured(const fedserver_training *training, const fedserver_device *device);

#endif
