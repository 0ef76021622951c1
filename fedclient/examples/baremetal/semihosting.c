/* Semihosting calls of a Cortex-M: a breakpoint instruction that the emulator answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/examples/baremetal/semihosting.h"

#include <string.h>

enum {
    SYS_OPEN = 0x01,
    SYS_CLOSE = 0x02,
    SYS_WRITE0 = 0x04,
    SYS_WRITE = 0x05,
    SYS_READ = 0x06,
    SYS_SEEK = 0x0A,
    SYS_FLEN = 0x0C,
    SYS_TIME = 0x11,
    SYS_GET_CMDLINE = 0x15,
    SYS_EXIT_EXTENDED = 0x20,
    APPLICATION_EXIT = 0x20026
};

static intptr_t call(int number, const void *words) {
    register intptr_t r0 __asm__("r0") = number;
    register const void *r1 __asm__("r1") = words;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

int semihosting_open(const char *path, int mode) {
    const uintptr_t words[] = {(uintptr_t)path, (uintptr_t)mode, strlen(path)};
    return (int)call(SYS_OPEN, words);
}

void semihosting_close(int file) {
    const uintptr_t words[] = {(uintptr_t)file};
    (void)call(SYS_CLOSE, words);
}

static bool seek(int file, size_t at) {
    const uintptr_t words[] = {(uintptr_t)file, at};
    return call(SYS_SEEK, words) == 0;
}

bool semihosting_read_on(int file, void *dst, size_t len) {
    const uintptr_t words[] = {(uintptr_t)file, (uintptr_t)dst, len};
    return call(SYS_READ, words) == 0;
}

bool semihosting_read(int file, size_t at, void *dst, size_t len) {
    return seek(file, at) && semihosting_read_on(file, dst, len);
}

bool semihosting_write(int file, size_t at, const void *src, size_t len) {
    const uintptr_t words[] = {(uintptr_t)file, (uintptr_t)src, len};
    return seek(file, at) && call(SYS_WRITE, words) == 0;
}

size_t semihosting_length(int file) {
    const uintptr_t words[] = {(uintptr_t)file};
    const intptr_t length = call(SYS_FLEN, words);
    return length < 0 ? 0 : (size_t)length;
}

void semihosting_say(const char *text) {
    (void)call(SYS_WRITE0, text);
}

uint32_t semihosting_time(void) {
    return (uint32_t)call(SYS_TIME, NULL);
}

void semihosting_command_line(char *dst, size_t cap) {
    const uintptr_t words[] = {(uintptr_t)dst, cap};
    if (call(SYS_GET_CMDLINE, words) != 0) {
        dst[0] = '\0';
    }
}

_Noreturn void semihosting_exit(int status) {
    const uintptr_t words[] = {APPLICATION_EXIT, (uintptr_t)status};
    for (;;) {
        (void)call(SYS_EXIT_EXTENDED, words);
    }
}
