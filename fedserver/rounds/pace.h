/* Computes when a device is to check in again: after a random time, longer with more devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PACE_H
#define FEDSERVER_PACE_H

#include <stdint.h>

/** A device that checked in within this time is "seen lately". The time is longer than any wait
 * that a device is given. */
#define FEDSERVER_PACE_LATELY_MS (INT64_C(20) * 60 * 1000)

/** The wait that a device is given, in milliseconds; also for the header Retry-After.
 * least_ms: about how long nothing will happen. If there are few devices, each waits for least_ms
 * +- 25 %.
 * devices: the number of devices seen lately. Their waits are spread over 20 ms for each device,
 * at most 15 minutes. So up to 45,000 idle devices make at most 100 check-ins a second.
 * random: any 32 bits. */
uint32_t fedserver_pace_ms(uint32_t least_ms, uint64_t devices, uint32_t random);

#endif
