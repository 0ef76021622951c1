/* An error with a sentence for a person: what was wrong, where, and what to do next. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_ERROR_H
#define FED_ERROR_H

#include "fed/api.h"
#include "fed/status.h"

FED_API_BEGIN

/** Filled in by a call that failed; untouched by one that succeeded. Zero-initialise it. */
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

/* The same for languages that see neither C's variadic functions nor its arrays in structs, such as
 * Swift. */

/** fed_fail with a sentence that is complete; NULL: status's own words (fed_status_text). */
fed_status fed_fail_with(fed_error *err, fed_status status, const char *sentence);

/** The sentence; status's own words if there is none. Valid as long as *err is unchanged. */
const char *fed_error_text(const fed_error *err);

FED_API_END

#endif
