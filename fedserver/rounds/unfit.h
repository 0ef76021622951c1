/* Reports a device whose updates are out of range, and ends its work for nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_UNFIT_H
#define FEDSERVER_UNFIT_H

#include "fedserver/rounds/training.h"

/** After so many refused updates in a row the device gets no lease of the task, as if the device
 * had declined the task. */
enum { FEDSERVER_UNFIT_MOST = 3 };

/** Count a refused update of the device's lease, which is out of the task's range. *why: the
 * reason. The log gets the reason at the first refusal in a row, and the list of declines after the
 * last one. */
fed_status fedserver_unfit_add(fedserver_rounds *rounds, fedserver_training *training,
                               fedserver_device *device, const fed_error *why, int64_t now_ms,
                               fed_error *err) FED_CHECKED;

/** Count refusals from 0 again, because an update of the device was counted. */
fed_status fedserver_unfit_clear(fedserver_training *training, const fedserver_device *device,
                                 fed_error *err) FED_CHECKED;

#endif
