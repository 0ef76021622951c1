/* Declines a task for a device whose updates are out of range. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_UNFIT_H
#define FEDSERVER_UNFIT_H

#include "fedserver/rounds/training.h"

/** After this many refused updates in a row, the task is declined for the device. */
enum { FEDSERVER_UNFIT_MOST = 3 };

/** Count an update that was refused because its values or its loss are out of range. why: the
 * reason, for the log and the list of declines. */
fed_status fedserver_unfit_add(fedserver_rounds *rounds, fedserver_training *training,
                               fedserver_device *device, const fed_error *why, int64_t now_ms,
                               fed_error *err) FED_CHECKED;

/** Count refusals from 0 again, because an update of the device was counted. */
fed_status fedserver_unfit_clear(fedserver_training *training, const fedserver_device *device,
                                 fed_error *err) FED_CHECKED;

#endif
