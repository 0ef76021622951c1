/* The devices in memory: read from the store as they come, written back, named for people. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ROSTER_H
#define FEDSERVER_ROSTER_H

#include "fedserver/rounds/rounds.h"

/** Size of a device's name for people: the first digits of the fingerprint, then the device's
 * own name, if any, in brackets. "?": the device is not known. */
enum { FEDSERVER_DEVICE_SAID = FEDSERVER_NAME + 32 };
fed_status fedserver_device_report(const fedserver_rounds *rounds, int64_t id,
                                   char said[FEDSERVER_DEVICE_SAID], fed_error *err) FED_CHECKED;

/** Begin to follow the changes of identities. Reads no device: a device comes into memory with its
 * first request, or with a lease that stands. */
fed_status fedserver_devices_start(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** The device of that fingerprint, from memory or from the store. *device is NULL if there is
 * none. */
fed_status fedserver_device_fetch(fedserver_rounds *rounds,
                                  const uint8_t fingerprint[FED_SHA256_SIZE],
                                  fedserver_device **device, fed_error *err) FED_CHECKED;

/** Take a row into memory. A device that is in memory already stays as it is. */
fed_status fedserver_device_keep(fedserver_rounds *rounds, const fedserver_device *row,
                                 fedserver_device **device, fed_error *err) FED_CHECKED;

/** Look at the devices whose identity has changed since the last call of this function or of
 * fedserver_devices_start. Of a device in memory, take only what other processes change: within a
 * batch, the rest may be newer in memory than in the store. What a revoked device declined is
 * forgotten by fedserver_queue_follow, which comes next. */
fed_status fedserver_devices_follow(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** A request has come from this device.
 *    device  NULL: the request comes from no device
 *    agent   the request's User-Agent; NULL: it has none */
void fedserver_device_seen(fedserver_rounds *rounds, fedserver_device *device, const char *agent,
                           int64_t now_ms);

/** What the device computes on, as each of its check-ins says anew. on: NULL or "", the processor.
 * It is written as "last seen" is. */
void fedserver_device_computes(fedserver_device *device, const char *on);

/** Write the device's row now. */
fed_status fedserver_device_save(fedserver_rounds *rounds, fedserver_device *device,
                                 fed_error *err) FED_CHECKED;

/** Another copy of the device's state has reported. Write this to the log and to the device's
 * row. */
fed_status fedserver_device_cloned(fedserver_rounds *rounds, fedserver_device *device,
                                   int64_t now_ms, fed_error *err) FED_CHECKED;

/** Once a minute, write the rows of devices of which only "last seen" and the counts have
 * changed, at most 256 rows in a batch. Neighbours are written together: their rows lie in the same
 * pages. After a crash these fields may be a minute old. */
fed_status fedserver_devices_save(fedserver_rounds *rounds, int64_t now_ms,
                                  fed_error *err) FED_CHECKED;

#endif
