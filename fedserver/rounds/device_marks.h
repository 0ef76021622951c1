/* Remembers which devices declined a task, and which version each evaluator measured. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DEVICE_MARKS_H
#define FEDSERVER_DEVICE_MARKS_H

#include "fedserver/rounds/rounds.h"

/** Read from the store which devices have declined the task, and the digest of its class names.
 * Revoked devices are left out. */
fed_status fedserver_declines_load(const fedserver_rounds *rounds, fedserver_training *training,
                                   fed_error *err) FED_CHECKED;

/** The version of the task that the evaluator measured last; -1: none. A device's row stores one
 * measured version, of any task. So after a restart an evaluator may measure a version again. */
int64_t fedserver_measured(const fedserver_training *training, const fedserver_device *device);

#endif
