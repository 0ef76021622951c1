/* An error with a sentence for a person: what was wrong, where, and what to do next. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_ERROR_H
#define FED_ERROR_H

#include "fed/api.h"
#include "fed/status.h"

FED_API_BEGIN

/** Filled in by a call that failed; unchanged by one that succeeded. Initialise it with zeros. */
typedef struct fed_error {
    fed_status status;
    char text[400]; /* one sentence, no newline, always terminated */
} fed_error;

/**
 * Write a sentence into *err (if err is not NULL) and return status. So a failing function ends
 * with
 *
 *     return fed_fail(err, FED_EFORMAT, "%s:%d: unknown key \"%s\"", path, line, key);
 *
 * A sentence that is too long is cut. fed_fail itself never fails.
 */
fed_status fed_fail(fed_error *err, fed_status status, const char *format, ...) FED_PRINTF(3, 4);

/* The functions below are for languages, such as Swift, that can't use C's variadic functions or
 * arrays in structs. */

/** Fail as fed_fail does, with a finished sentence. NULL: the words of the status
 * (fed_status_text). */
fed_status fed_fail_with(fed_error *err, fed_status status, const char *sentence);

/** Return the sentence, or the words of the status if there is none. Valid as long as *err is
 * unchanged. */
const char *fed_error_text(const fed_error *err);

FED_API_END

#endif
