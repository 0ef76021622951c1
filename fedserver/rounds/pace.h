/* Computes when a device is to check in again: after a random time, longer with more devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PACE_H
#define FEDSERVER_PACE_H

#include <stdint.h>

/** A device that checked in within this time counts as "seen lately". */
#define FEDSERVER_PACE_LATELY_MS (INT64_C(20) * 60 * 1000)

/** The wait before a device's next check-in, in milliseconds; also for the header Retry-After.
 * least_ms: the mean wait while there are few devices. Each wait differs from it by up to 25 %.
 * devices: the number of devices seen lately. With many devices, waits are spread over 20 ms for
 * each device, at most 15 minutes. random: any 32 bits. */
uint32_t fedserver_pace_ms(uint32_t least_ms, uint64_t devices, uint32_t random);

#endif
