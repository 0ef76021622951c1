/* The devices that the rounds know: loaded, written back, and said to people. */
#ifndef FEDSERVER_ROSTER_H
#define FEDSERVER_ROSTER_H

#include "fedserver/rounds/rounds.h"

/** A device for people: the first digits of its fingerprint and, where it has one, its name; "?"
 * for one that is not known. */
enum { FEDSERVER_DEVICE_SAID = FEDSERVER_NAME + 32 };
void fedserver_device_say(const fedserver_rounds *rounds, int64_t device,
                          char said[FEDSERVER_DEVICE_SAID]);

/** Fill in rounds->devices from the store. */
fed_status fedserver_devices_load(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/** A request has come from that device, or from none: NULL. agent: the request's User-Agent; NULL:
 * it has none. */
void fedserver_device_seen(fedserver_device *device, const char *agent, int64_t now_ms);

/** Write a device's row. */
fed_status fedserver_device_save(fedserver_rounds *rounds, fedserver_device *device,
                                 fed_error *err) FED_CHECKED;

/** Once a minute, write the rows of those devices of which only "last seen" and the counts have
 * changed, some hundreds in a batch: these may be a minute old after a crash. */
fed_status fedserver_devices_save(fedserver_rounds *rounds, int64_t now_ms,
                                  fed_error *err) FED_CHECKED;

#endif
