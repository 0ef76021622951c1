/* Make text from outside safe to show to people. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_UTF8_H
#define FED_UTF8_H

#include <stdbool.h>

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

FED_API_END

#endif
