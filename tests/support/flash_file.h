/* The client library's flash platform on a file, for tests that kill processes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLASH_FILE_H
#define FLASH_FILE_H

#include "fedclient/flash.h"

/** Open the platform on the file `flash` in a directory, which is made if needed. FED_EBUSY: the
 * file is in use. */
fed_status flash_file_open(const char *directory, fedclient_platform *platform,
                           fed_error *err) FED_CHECKED;
void flash_file_close(fedclient_platform *platform);

#endif
