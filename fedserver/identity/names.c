/* Checks names and tags of devices, which come from the devices or from operators. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/identity/names.h"

#include <string.h>

#include "fed/utf8.h"

void fedserver_text_take(char *dst, size_t cap, const char *src) {
    size_t len = strnlen(src, cap);
    for (len = len < cap ? len : cap - 1; len > 0 && (src[len] & 0xc0) == 0x80; len--) {
    }
    memcpy(dst, src, len);
    dst[len] = '\0';
    fed_utf8_clean(dst);
    for (char *c = dst; (c = strchr(c, '"')) != NULL;) {
        /* a double quote becomes a single one, because names are shown between double quotes */
        *c = '\'';
    }
}

fed_status fedserver_text_check(const char *what, const char *text, char *clean, size_t cap,
                                fed_error *err) {
    fedserver_text_take(clean, cap, text);
    return strcmp(clean, text) == 0
               ? FED_OK
               : fed_fail(err, FED_EINVAL,
                          "the %s \"%s\" is not valid: give at most %zu bytes of printable UTF-8 "
                          "without quotes",
                          what, clean, cap - 1);
}
