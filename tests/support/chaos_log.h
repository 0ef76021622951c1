/* Opens and reads the logs that the devices of the chaos test write. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CHAOS_LOG_H
#define FED_CHAOS_LOG_H

#include "federation.h"

/** Add the records of directory/deviceK.log to f. Records that disagree break D2 or D5 of
 * docs/durability.md. */
void chaos_log_read(const char *directory, unsigned k, federation *f);

/** Open a device's log to append. A part of a record, left by a kill within `write`, is cut off, as
 * records behind it could not be read. Returns the descriptor, or -1 with errno. */
int chaos_log_open(const char *path);

#endif
