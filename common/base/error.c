/* Errors with a status and a sentence. */
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

fed_status fed_fail_with(fed_error *err, fed_status status, const char *sentence) {
    return fed_fail(err, status, "%s", sentence != NULL ? sentence : fed_status_text(status));
}

const char *fed_error_text(const fed_error *err) {
    return err->text[0] != '\0' ? err->text : fed_status_text(err->status);
}
