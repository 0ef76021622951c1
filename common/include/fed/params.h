/* Spec strings: "name:key=value,key=value", which say a codec or an optimizer with its numbers. */
#ifndef FED_PARAMS_H
#define FED_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/** One parameter that a spec may name. A table of them ends with a NULL key. */
typedef struct fed_param {
    const char *key;
    double preset;    /* when the spec does not name it; outside low to high: it must */
    double low, high; /* both allowed */
    const char *help; /* "fraction of values sent" */
    bool whole;       /* whole numbers only */
    /* NULL for a number; else the words that the spec takes, ending with NULL: the value is a
     * word's place in them, preset, low and high are too. */
    const char *const *names;
} fed_param;

/** A piece of a spec; not terminated. */
typedef struct fed_word {
    const char *text;
    size_t len;
} fed_word;

/** The word before the next of `stops`, or the end; *text moves behind it, onto the stop. */
fed_word fed_word_take(const char **text, const char *stops);
bool fed_word_is(fed_word w, const char *text);

/** A decimal number of at most 15 digits, such as "-1.5e-4", whatever the host's locale is. */
bool fed_word_number(fed_word w, double *value);

/** A list of names for an error's sentence: "a, b, c". */
typedef struct fed_names {
    char text[160];
} fed_names;

void fed_names_add(fed_names *list, const char *name);

/** The next '+' that begins a part of a spec, and not a number's exponent; NULL: none. */
char *fed_spec_plus(char *text);

/**
 * Read the parameters of "codec sbc": kind "codec", name "sbc", text ":p=0.01" or "".
 *
 * value  float64[], one for each of params, those that are not named preset
 * Errors FED_EINVAL with a sentence that names the word that is wrong, and what would be right;
 *        value may have changed then
 */
fed_status fed_params_read(const char *kind, const char *name, const fed_param *params,
                           const char *text, double *value, fed_error *err) FED_CHECKED;

/** A value as text that fed_params_read understands, whatever the host's locale is. */
void fed_param_write(double value, char *dst, size_t cap);

FED_API_END

#endif
