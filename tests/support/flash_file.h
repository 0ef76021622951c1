/* The flash platform on a file, which stands for the flash, for tests that kill processes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLASH_FILE_H
#define FLASH_FILE_H

#include "fedclient/flash.h"

/** Open the platform on the file `flash` in a directory, which is made if missing. Holds a lock on
 * the directory until closed. FED_EBUSY: another process, or this one, has the lock. */
fed_status flash_file_open(const char *directory, fedclient_platform *platform,
                           fed_error *err) FED_CHECKED;
void flash_file_close(fedclient_platform *platform);

#endif
