/* What a device of the chaos run wrote down: read back, into a federation's ledger. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CHAOS_LOG_H
#define FED_CHAOS_LOG_H

#include "federation.h"

/** Take directory/deviceK.log into f: the updates that were acknowledged, and the digests of the
 * versions that were announced. D2 and D5 are broken here if two records disagree. */
void chaos_log_read(const char *directory, unsigned k, federation *f);

/** Open a device's log, to add records to it. A device that was killed within `write` has left a
 * part of a record, which is cut off: what the device adds behind it could not be read. Returns the
 * descriptor; -1: errno says why. */
int chaos_log_open(const char *path);

#endif
