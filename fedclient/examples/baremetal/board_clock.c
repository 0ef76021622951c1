/* The board's clock: the timer SysTick counts milliseconds; the host gives the date at the start.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/time.h>
#include <time.h>

#include <mbedtls/platform_time.h>

#include "fed/clock.h"
#include "fedclient/examples/baremetal/board.h"
#include "fedclient/examples/baremetal/semihosting.h"

enum { CLOCK_HZ = 25000000, TICKS_PER_S = 1000 };

static volatile uint32_t *const systick_control = (uint32_t *)0xE000E010;
static volatile uint32_t *const systick_reload = (uint32_t *)0xE000E014;
static volatile uint32_t *const systick_value = (uint32_t *)0xE000E018;

static volatile uint64_t ticks;
static int64_t started_ms; /* Unix time at tick 0 */

void board_tick(void) {
    ticks++;
}

void board_clock_start(void) {
    started_ms = INT64_C(1000) * semihosting_time();
    *systick_reload = CLOCK_HZ / TICKS_PER_S - 1;
    *systick_value = 0;
    *systick_control = 7; /* count the processor's clock, interrupt at 0, start */
}

void board_doze(void) {
    __asm__ volatile("wfi");
}

int64_t fed_clock_monotonic_ms(void) {
    uint64_t now = ticks;
    while (now != ticks) { /* an interrupt between the two 32-bit reads changed ticks */
        now = ticks;
    }
    return (int64_t)now;
}

int64_t fed_clock_unix_ms(void) {
    return started_ms + fed_clock_monotonic_ms();
}

int64_t fed_clock_thread_cpu_us(void) {
    return 1000 * fed_clock_monotonic_ms();
}

void fed_sleep_ms(int64_t ms) {
    const int64_t until = fed_clock_monotonic_ms() + ms;
    while (fed_clock_monotonic_ms() < until) {
        board_network_poll();
        board_doze();
    }
}

/* Functions that mbedTLS and the C library call. */

mbedtls_ms_time_t mbedtls_ms_time(void) {
    return fed_clock_monotonic_ms();
}

time_t time(time_t *at) {
    const time_t now = (time_t)(fed_clock_unix_ms() / 1000);
    if (at != NULL) {
        *at = now;
    }
    return now;
}
