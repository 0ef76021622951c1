/* Semihosting: an emulated board's program asks the emulator for files, the date, or to end. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A real board has a UART, a flash, a random number generator and a clock instead of these
 * functions. The calls' numbers are those of Arm's "Semihosting for AArch32 and AArch64". */

enum { SEMIHOSTING_READ = 1, SEMIHOSTING_UPDATE = 3 }; /* modes "rb" and "r+b" of fopen */

/** Open a file of the host; -1: it can't be opened. */
int semihosting_open(const char *path, int mode);
void semihosting_close(int file);
/** Read or write exactly len bytes of a file, beginning at byte number `at`. false: the file has
 * fewer bytes, or the host failed. */
bool semihosting_read(int file, size_t at, void *dst, size_t len);
bool semihosting_write(int file, size_t at, const void *src, size_t len);
/** Read len bytes from where the last read ended. This function is for files without positions,
 * such as /dev/urandom. */
bool semihosting_read_on(int file, void *dst, size_t len);
/** The number of bytes of a file; 0: not known. */
size_t semihosting_length(int file);

void semihosting_say(const char *text);
uint32_t semihosting_time(void); /* Unix seconds */
/** Get the arguments that the emulator was started with, in one text. */
void semihosting_command_line(char *dst, size_t cap);
_Noreturn void semihosting_exit(int status);

#endif
