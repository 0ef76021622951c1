/* Keeps the memory limit of all tasks, and the front's port, in the directory, for processes that
 * do not serve. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_MEMORY_NOTE_H
#define FEDSERVER_MEMORY_NOTE_H

#include <stdint.h>

#include "fed/error.h"

/** Read the limit that the serving process has written, in bytes. *bytes is 0 if there is none. */
fed_status fedserver_memory_note_read(const char *directory, uint64_t *bytes,
                                      fed_error *err) FED_CHECKED;

/** Write the limit in bytes to the directory; 0: there is no limit. */
fed_status fedserver_memory_note_write(const char *directory, uint64_t bytes,
                                       fed_error *err) FED_CHECKED;

/** The port at which a front has served the directory last; 0: not known. */
uint16_t fedserver_front_note_read(const char *directory);

fed_status fedserver_front_note_write(const char *directory, uint16_t port,
                                      fed_error *err) FED_CHECKED;

#endif
