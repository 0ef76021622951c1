/* The system's clocks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id, int64_t units_per_second) {
    struct timespec t;
    if (clock_gettime(id, &t) != 0) {
        return 0; /* only a system without this clock fails */
    }
    return (int64_t)t.tv_sec * units_per_second + t.tv_nsec / (1000000000 / units_per_second);
}

int64_t fed_clock_unix_ms(void) {
    return read_clock(CLOCK_REALTIME, 1000);
}

int64_t fed_clock_monotonic_ms(void) {
    return read_clock(CLOCK_MONOTONIC, 1000);
}

int64_t fed_clock_monotonic_us(void) {
    return read_clock(CLOCK_MONOTONIC, 1000000);
}

int64_t fed_clock_thread_cpu_us(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID, 1000000);
}

void fed_sleep_ms(int64_t ms) {
    if (ms > 0) {
        struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
        nanosleep(&t, NULL);
    }
}
