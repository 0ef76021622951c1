/* The options of a command line as a table with one row for each option, and its parser. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_APPS_OPTION_TABLE_H
#define FEDCLIENT_APPS_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/** The type of an option's member in the struct of all values. */
typedef enum option_kind {
    OPTION_FLAG,   /* bool; the option has no value */
    OPTION_TEXT,   /* const char *, which points into argv */
    OPTION_NUMBER, /* uint32_t, from `low` to `high` */
    OPTION_OTHER
} option_kind;

typedef struct option_row {
    const char *name; /* without "--" */
    option_kind kind;
    size_t offset; /* offset of the option's member in the struct of all values */
    uint32_t low, high;
    unsigned commands; /* bits of the commands that take the option */
    fed_status (*take)(const char *value, void *values, fed_error *err);
} option_row;

enum { OPTION_ROWS = 48 }; /* most rows of a table */

/** Read the options of argv[1] and the following into *values. `command` is the bit of the command
 * argv[0]. *words = the index of the first word that is no option. FED_EINVAL: the error's text
 * says which option is wrong. */
fed_status option_table_read(const option_row *rows, size_t count, unsigned command, int argc,
                             char **argv, void *values, int *words, fed_error *err) FED_CHECKED;

/** Return whether this word, such as "--help", is among argv[1] and the following. */
bool option_is_given(const char *option, int argc, char **argv);

/** Read a whole number in decimal digits, from low to high, that ends before the character `end`.
 * Return where the number ends, or NULL if the text does not begin with such a number. */
const char *option_number(const char *text, char end, uint32_t low, uint32_t high, uint32_t *value);

#endif
