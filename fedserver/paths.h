/* Makes the paths of files in a coordinator's directory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PATHS_H
#define FEDSERVER_PATHS_H

#include <stddef.h>

/** Write DIRECTORY/name to dst, cut to cap bytes with the NUL. */
void fedserver_path(const char *directory, const char *name, char *dst, size_t cap);

#endif
