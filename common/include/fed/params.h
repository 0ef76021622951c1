/* Spec strings such as "name:key=value,key=value": they name a codec or an optimizer with its
 * parameters. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_PARAMS_H
#define FED_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/** One parameter of a spec. A table of parameters ends with a NULL key. */
typedef struct fed_param {
    const char *key;
    double preset;    /* the default; outside low to high: there is none */
    double low, high; /* the smallest and the largest value allowed */
    const char *help; /* words for people, such as "fraction of values sent" */
    bool whole;       /* whole numbers only */
    /* NULL for a number. Otherwise the words that the parameter accepts, ended by NULL. Then the
     * value, preset, low and high are indices of words. */
    const char *const *names;
} fed_param;

/** A word of a spec, without a terminating NUL. */
typedef struct fed_word {
    const char *text;
    size_t len;
} fed_word;

/** Return the word up to the next character of stops, or to the end of the text. *text moves to
 * that character. */
fed_word fed_word_take(const char **text, const char *stops);
bool fed_word_is(fed_word w, const char *text);

/** Read a decimal number of at most 15 digits, such as "-1.5e-4", independent of the locale.
 * Returns false for other text. */
bool fed_word_number(fed_word w, double *value);

/** Read a decimal number, also of more than 15 digits, as in "0.30000000000000004", independent of
 * the locale. The whole text must be the number. Returns false for other text, also for hexadecimal
 * numbers, infinities and NaN, and for a number that a double can't hold. */
bool fed_text_number(const char *text, double *value);

/** A list of names for an error: "a, b, c". */
typedef struct fed_names {
    char text[160];
} fed_names;

void fed_names_add(fed_names *list, const char *name);

/** Find the next '+' of a spec that is not in a number's exponent. Returns NULL if there is
 * none. */
char *fed_spec_plus(char *text);

/**
 * Read the parameters of a spec such as "codec sbc": kind "codec", name "sbc", text ":p=0.01" or
 * "".
 *
 * value  float64[], one for each of params; those that the text does not name get their preset
 * Errors FED_EINVAL with a sentence that names the wrong word and what is allowed. value may
 *        have changed
 */
fed_status fed_params_read(const char *kind, const char *name, const fed_param *params,
                           const char *text, double *value, fed_error *err) FED_CHECKED;

/** Write a value as text for fed_params_read, independent of the locale. */
void fed_param_write(double value, char *dst, size_t cap);

FED_API_END

#endif
