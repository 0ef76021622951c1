/* Makes the paths of files in a coordinator's directory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/paths.h"

#include <stdio.h>

void fedserver_path(const char *directory, const char *name, char *dst, size_t cap) {
    snprintf(dst, cap, "%s/%s", directory, name);
}
