/* The parts of a device that are specific to this board: clock, network, flash, memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOARD_H
#define BOARD_H

#include "fedclient/fedclient.h"
#include "fedclient/flash.h"

/* -- clock: board_clock.c -- */

void board_clock_start(void);
/** Count a millisecond; the timer's interrupt calls it. */
void board_tick(void);
/** Sleep until the next interrupt. */
void board_doze(void);

/* -- network: board_network.c -- */

/** Start the Ethernet, and wait for an address, for half a minute at most. False: a failure. */
bool board_network_start(void);
/** Process received frames and timers of lwIP. Code that waits must call it repeatedly. */
void board_network_poll(void);

/* -- flash: nor_simulation.c -- */

/** Open a flash that is simulated in a file of the host. cut, such as "program:40" or "erase:7":
 * power fails in the middle of the 40th program or the 7th erase; NULL: never. */
bool board_flash_open(const char *path, const char *cut, fedclient_flash *flash);

/* -- training: board_train.c; the samples are made by samples.py -- */

enum { BOARD_SAMPLE_SIDE = 14 };
extern const uint8_t board_sample_pixels[]; /* uint8[count, 14, 14] */
extern const uint8_t board_sample_labels[];
extern const uint32_t board_sample_count;

/** The training callback: trains the task's model on the samples in flash. */
fed_status board_train(void *user, fedclient_round *round, fed_error *err);

/* -- memory: startup.c -- */

typedef struct board_memory {
    size_t fixed;              /* bytes of variables that live as long as the program */
    size_t heap, heap_limit;   /* peak use and size, in bytes */
    size_t stack, stack_limit; /* peak use and size, in bytes */
} board_memory;

board_memory board_memory_used(void);

#endif
