/* lwIP's settings for the compiler and the processor. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARCH_CC_H
#define ARCH_CC_H

#include <stdio.h>
#include <stdlib.h>

#define LWIP_PLATFORM_DIAG(words)  printf words
#define LWIP_PLATFORM_ASSERT(text) (puts(text), exit(3))
#define LWIP_RAND()                (board_random())

/** 32 random bits, so that others can't guess the sequence numbers of a connection. */
unsigned board_random(void);

#endif
