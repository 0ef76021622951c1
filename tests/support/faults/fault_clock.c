/* A wall clock that is wrong by as much as the test says. */
#define _GNU_SOURCE /* NOLINT: RTLD_NEXT */
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

#include "fault_disk.h"

static const atomic_llong *ahead;

void fault_clock_use(const atomic_llong *ahead_ms) {
    ahead = ahead_ms;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*_Atomic real)(clockid_t, struct timespec *);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    }
    int failed = real(clock, now);
    if (failed == 0 && clock == CLOCK_REALTIME && ahead != NULL) {
        long long ms = atomic_load(ahead);
        now->tv_sec += (time_t)(ms / 1000);
    }
    return failed;
}
