/* What a device does, in one word for people. */
#ifndef FEDSERVER_DEVICE_STATE_H
#define FEDSERVER_DEVICE_STATE_H

#include "fedserver/rounds/rounds.h"

/** One word for what a device does: revoked, expired, cloned, training, declined, late (its lease
 * ended without an update), waiting (seen lately), away. */
const char *fedserver_device_state(const fedserver_training *training,
                                   const fedserver_device *device, int64_t now_ms);
#define FEDSERVER_CLONED_MS (INT64_C(24) * 3600 * 1000) /* so long after two copies were seen */

#endif
