/* Read the logs that the devices of the chaos test wrote into a federation's ledger. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CHAOS_LOG_H
#define FED_CHAOS_LOG_H

#include "federation.h"

/** Read directory/deviceK.log into f: the acknowledged updates, and the digests of the
 * announced versions. Two records that disagree break D2 or D5 of docs/durability.md. */
void chaos_log_read(const char *directory, unsigned k, federation *f);

/** Open a device's log for more records. A device that was killed within `write` has left a
 * part of a record. This part is cut off, as records behind it could not be read. Returns the
 * descriptor, or -1 with errno. */
int chaos_log_open(const char *path);

#endif
