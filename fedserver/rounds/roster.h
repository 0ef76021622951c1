/* The devices in memory: read at their first request, written back, and named in logs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ROSTER_H
#define FEDSERVER_ROSTER_H

#include "fedserver/rounds/rounds.h"

/** A device's name in logs and lists: the first digits of its fingerprint, and the device's own
 * name, if any, in brackets. "?": the device is not known. */
enum { FEDSERVER_DEVICE_SAID = FEDSERVER_NAME + 32 };
fed_status fedserver_device_report(const fedserver_rounds *rounds, int64_t id,
                                   char said[FEDSERVER_DEVICE_SAID], fed_error *err) FED_CHECKED;

/** Begin to follow the changes of devices' identities. No device is read yet. */
fed_status fedserver_devices_start(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Find the device with that fingerprint in memory or in the store. *device NULL: there is no such
 * device. */
fed_status fedserver_device_fetch(fedserver_rounds *rounds,
                                  const uint8_t fingerprint[FED_SHA256_SIZE],
                                  fedserver_device **device, fed_error *err) FED_CHECKED;

/** Take a device's row into memory. A device that is in memory already stays unchanged. */
fed_status fedserver_device_keep(fedserver_rounds *rounds, const fedserver_device *row,
                                 fedserver_device **device, fed_error *err) FED_CHECKED;

/** Read the devices whose identity has changed since the last call of this function or of
 * fedserver_devices_start. A device in memory gets only the members that other processes change,
 * because its other members may be newer than the row. */
fed_status fedserver_devices_follow(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** Note a request's time and program in the device. device: NULL for a request that comes from no
 * device. agent: the request's User-Agent, or NULL. True: the device was away, or comes for the
 * first time. Then the caller stores the device's row, so that other processes see at once that the
 * device is there. */
bool fedserver_device_seen(fedserver_rounds *rounds, fedserver_device *device, const char *agent,
                           int64_t now_ms);

/** Note what the device computes on. on: NULL or "" for the processor. fedserver_devices_save
 * writes the text to the store. */
void fedserver_device_computes(fedserver_device *device, const char *on);

/** Write the device's row now. */
fed_status fedserver_device_save(fedserver_rounds *rounds, fedserver_device *device,
                                 fed_error *err) FED_CHECKED;

/** Note, in the log and in the device's row, that two copies of the device's state report. At most
 * once a minute. */
fed_status fedserver_device_cloned(fedserver_rounds *rounds, fedserver_device *device,
                                   int64_t now_ms, fed_error *err) FED_CHECKED;

/** Once a minute, write the rows of devices that have changed in memory, at most 256 rows a call.
 * Neighbouring rows are written together, since they lie in the same pages of the database. */
fed_status fedserver_devices_save(fedserver_rounds *rounds, int64_t now_ms,
                                  fed_error *err) FED_CHECKED;

#endif
