/* Names of files in a coordinator's directory. */
#include "fedserver/paths.h"

#include <stdio.h>

void fedserver_path(const char *directory, const char *name, char *dst, size_t cap) {
    snprintf(dst, cap, "%s/%s", directory, name);
}
