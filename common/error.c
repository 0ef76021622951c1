/* Errors with a sentence. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/error.h"

#include <stdarg.h>
#include <stdio.h>

fed_status fed_fail(fed_error *err, fed_status status, const char *format, ...) {
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        err->status = status;
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return status;
}
