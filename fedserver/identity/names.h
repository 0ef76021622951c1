/* Checks names and tags of devices, which come from the devices or from operators. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_NAMES_H
#define FEDSERVER_NAMES_H

#include "fed/error.h"
#include "fedserver/stores/store.h"

/** Copy as much of src as dst has room for, in whole characters. Unprintable characters and double
 * quotes are replaced, so that the text can be shown between quotes. */
void fedserver_text_take(char *dst, size_t cap, const char *src);

/** Copy a text of an operator into clean[cap]. what: names it in the error, such as "tag".
 * FED_EINVAL: the text is too long, not printable, or has double quotes. */
fed_status fedserver_text_check(const char *what, const char *text, char *clean, size_t cap,
                                fed_error *err) FED_CHECKED;

#endif
