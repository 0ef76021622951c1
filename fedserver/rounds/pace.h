/* When a device is to come back: at random, and the later the more of them there are. Pure. */
#ifndef FEDSERVER_PACE_H
#define FEDSERVER_PACE_H

#include <stdint.h>

/** Devices that came within this time are "seen lately": longer than any wait they are told. */
#define FEDSERVER_PACE_LATELY_MS (INT64_C(20) * 60 * 1000)

/**
 * The wait that a device is told, or the seconds of a Retry-After.
 *
 * least_ms  about how long there is nothing to say: a few devices come back after least_ms +-25 %
 * devices   how many were seen lately. Their waits spread over 20 ms for each of them, 15 minutes
 *           at most: so up to 45,000 idle devices make at most 100 check-ins a second
 * random    any 32 bits
 */
uint32_t fedserver_pace_ms(uint32_t least_ms, uint64_t devices, uint32_t random);

#endif
