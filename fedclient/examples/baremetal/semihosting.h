/* Semihosting: a program on an emulated board asks the emulator for files, the date, its end. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A real board has a UART, a flash, a TRNG and a clock in these functions' place. Numbers as in
 * Arm's "Semihosting for AArch32 and AArch64". */

enum { SEMIHOSTING_READ = 1, SEMIHOSTING_UPDATE = 3 }; /* "rb" and "r+b" */

/** Open a file of the host; -1: it can't be opened. */
int semihosting_open(const char *path, int mode);
void semihosting_close(int file);
/** Exactly len bytes from a place on; false: there are not so many, or the host failed. */
bool semihosting_read(int file, size_t at, void *dst, size_t len);
bool semihosting_write(int file, size_t at, const void *src, size_t len);
/** As read, from where the last read ended: for files without places, such as /dev/urandom. */
bool semihosting_read_on(int file, void *dst, size_t len);
/** Bytes of a file; 0: not known. */
size_t semihosting_length(int file);

void semihosting_say(const char *text);
uint32_t semihosting_time(void); /* Unix seconds */
/** The words that the emulator was started with. */
void semihosting_command_line(char *dst, size_t cap);
_Noreturn void semihosting_exit(int status);

#endif
