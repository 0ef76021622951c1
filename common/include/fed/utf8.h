/* Make text from outside safe to show to people. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_UTF8_H
#define FED_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"

FED_API_BEGIN

/** Replace by '?' each byte that is not well-formed UTF-8, and each character that a log or a page
 * must not show, such as control characters, line ends, marks that change the text's direction, and
 * characters that nobody sees. Works in place; the text never grows. */
void fed_utf8_clean(char *text);

/** Would fed_utf8_clean leave the text as it is? */
bool fed_utf8_shown(const char *text);

/** Is the whole text well-formed UTF-8? Characters that must not be shown are allowed. */
bool fed_utf8_valid(const char *text);

/** Return how many of len bytes come before the first one that is not well-formed UTF-8: len if
 * all are. A NUL is a character here. */
size_t fed_utf8_valid_len(const uint8_t *text, size_t len);

FED_API_END

#endif
