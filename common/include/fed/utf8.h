/* Text that came from outside, made fit for people to read. */
#ifndef FED_UTF8_H
#define FED_UTF8_H

#include "fed/api.h"

FED_API_BEGIN

/** Put '?' in place of each byte that is not well-formed UTF-8, and of each character that a log or
 * a page must not show as it is: control characters, line ends, and marks that turn the direction
 * of the text. In place; the text never grows. */
void fed_utf8_clean(char *text);

FED_API_END

#endif
