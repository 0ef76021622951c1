/* Keeps a task from devices whose classes have other names than those of the task's devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CLASSES_H
#define FEDSERVER_CLASSES_H

#include "fedserver/rounds/rounds.h"

/** Has the task a digest of class names, and the device another one? A device that names no classes
 * differs from none. */
bool fedserver_classes_differ(const fedserver_training *training, const fedserver_device *device);

/** An update of the device was counted. The first such device that names classes sets the task's
 * digest. Leases of devices that differ end with a decline. */
fed_status fedserver_classes_count(fedserver_rounds *rounds, fedserver_training *training,
                                   const fedserver_device *device, int64_t now_ms,
                                   fed_error *err) FED_CHECKED;

/** Decline the running tasks from whose class names the device differs. */
fed_status fedserver_classes_decline(fedserver_rounds *rounds, fedserver_device *device,
                                     int64_t now_ms, fed_error *err) FED_CHECKED;

/** If the row of the table of declines holds the task's digest, read it, and return true. */
bool fedserver_classes_load(fedserver_training *training, const fedserver_decline *row);

#endif
