/* Passes one finding of a store's check (`fedserver check`) to the caller's report function. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>

#include "fedserver/stores/store.h"

void fedserver_check_note(fedserver_checker *checker, fedserver_check_kind kind, const char *format,
                          ...) {
    char text[sizeof((fed_error){0}.text)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    checker->findings += kind == FEDSERVER_FOUND;
    checker->report(checker->user, kind, text);
}
