/* Ends declines, so that a device is asked again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ASKED_AGAIN_H
#define FEDSERVER_ASKED_AGAIN_H

#include "fedserver/rounds/rounds.h"

/** End the device's decline of the task. */
fed_status fedserver_decline_end(fedserver_rounds *rounds, fedserver_training *training,
                                 const fedserver_device *device, fed_error *err) FED_CHECKED;

/** End the device's declines of the tasks in memory, because its program has started again. */
fed_status fedserver_declines_end(fedserver_rounds *rounds, const fedserver_device *device,
                                  int64_t now_ms, fed_error *err) FED_CHECKED;

/** When the first of the device's declines of running tasks ends, in Unix ms; 0: there is none. */
int64_t fedserver_declined_until(const fedserver_rounds *rounds, const fedserver_device *device,
                                 int64_t now_ms);

#endif
