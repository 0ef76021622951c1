/* From reset to main: the vector table, memory, and functions that the C library needs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fed/file.h"
#include "fedclient/examples/baremetal/board.h"
#include "fedclient/examples/baremetal/semihosting.h"

extern uint32_t stack_low[], stack_top[], data_begin[], data_end[], data_stored[], bss_begin[],
    bss_end[];
extern char __heap_start[], __heap_end[], __tls_base[];
extern void *sbrk(ptrdiff_t more);
extern void _set_tls(void *tls);

int main(void);
void reset(void);

enum { PAINT = 0x5AA55AA5, VECTORS = 16 };

static size_t stack_untouched(void) {
    const uint32_t *at = stack_low;
    while (at < stack_top && *at == PAINT) {
        at++;
    }
    return (size_t)((const char *)at - (const char *)stack_low);
}

board_memory board_memory_used(void) {
    const size_t stack = (size_t)((char *)stack_top - (char *)stack_low);
    return (board_memory){
        .fixed = (size_t)(__heap_start - (char *)stack_top),
        .heap = (size_t)((char *)sbrk(0) - __heap_start),
        .heap_limit = (size_t)(__heap_end - __heap_start),
        .stack = stack - stack_untouched(),
        .stack_limit = stack,
    };
}

void reset(void) {
    for (volatile uint32_t *at = stack_low; at < (uint32_t *)__builtin_frame_address(0) - 16;) {
        *at++ = PAINT;
    }
    for (uint32_t *to = data_begin, *from = data_stored; to < data_end;) {
        *to++ = *from++;
    }
    for (uint32_t *at = bss_begin; at < bss_end;) {
        *at++ = 0;
    }
    _set_tls(__tls_base);
    exit(main());
}

static void fault(void) {
    puts("the processor stopped: a fault, such as a stack that overflowed");
    _exit(3);
}

__attribute__((section(".vectors"), used)) static void (*const vectors[VECTORS])(void) = {
    (void (*)(void))(uintptr_t)stack_top,
    reset,
    fault,
    fault,
    fault,
    fault,
    fault,
    [15] = board_tick};

static int put_char(char c, FILE *file) {
    static char line[128];
    static size_t len;
    (void)file;
    line[len++] = c;
    if (c == '\n' || len == sizeof line - 1) {
        line[len] = '\0';
        semihosting_say(line);
        len = 0;
    }
    return c;
}

static FILE console = FDEV_SETUP_STREAM(put_char, NULL, NULL, _FDEV_SETUP_WRITE);
FILE *const stdout = &console;
FILE *const stderr = &console;

void abort(void) {
    puts("the program stopped itself");
    _exit(3);
}

void _exit(int status) {
    semihosting_exit(status);
}

/* The trainer calls this function for mapped files, of which the board has none. */

void fed_file_unmap(const uint8_t *data, size_t len) {
    (void)data;
    (void)len;
}
