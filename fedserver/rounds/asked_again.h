/* Ends declines, so that a device is asked again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ASKED_AGAIN_H
#define FEDSERVER_ASKED_AGAIN_H

#include "fedserver/rounds/rounds.h"

/** Forget the device's decline of the task: it becomes so old that it holds no longer. */
fed_status fedserver_decline_end(fedserver_rounds *rounds, fedserver_training *training,
                                 const fedserver_device *device, fed_error *err) FED_CHECKED;

/** The device's program has started again: forget all that the device has declined. */
fed_status fedserver_declines_end(fedserver_rounds *rounds, const fedserver_device *device,
                                  int64_t now_ms, fed_error *err) FED_CHECKED;

/** When the device is asked again for a task that it declined, in Unix milliseconds; 0: it has
 * declined none. */
int64_t fedserver_declined_until(const fedserver_rounds *rounds, const fedserver_device *device,
                                 int64_t now_ms);

#endif
