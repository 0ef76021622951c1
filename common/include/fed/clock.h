/* Clocks, and a sleep. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CLOCK_H
#define FED_CLOCK_H

#include <stdint.h>

#include "fed/api.h"

FED_API_BEGIN

int64_t fed_clock_unix_ms(void);       /* milliseconds since 1970, UTC */
int64_t fed_clock_monotonic_ms(void);  /* never goes back; from an arbitrary start */
int64_t fed_clock_monotonic_us(void);  /* the same clock in microseconds */
int64_t fed_clock_thread_cpu_us(void); /* CPU time that the calling thread has used */
void fed_sleep_ms(int64_t ms);         /* a signal ends the sleep early */

FED_API_END

#endif
