/* A wall clock that is wrong by an amount that the test sets. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: syscall */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/faults/fault_disk.h"

static const atomic_llong *ahead;

void fault_clock_use(const atomic_llong *ahead_ms) {
    ahead = ahead_ms;
}

/* Replaces the C library's clock_gettime, under another name in C. */
int fault_clock_gettime(clockid_t clock, struct timespec *now) __asm__("clock_gettime");

int fault_clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed == 0 && clock == CLOCK_REALTIME && ahead != NULL) {
        now->tv_sec += (time_t)(*ahead / 1000);
    }
    return failed;
}
