/* The parser of a table of options, on getopt_long. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/apps/option_table.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "fed/command_line.h"

bool option_is_given(const char *option, int argc, char **argv) {
    int k = 1;
    while (k < argc && strcmp(argv[k], option) != 0) {
        k++;
    }
    return k < argc;
}

const char *option_number(const char *text, char end, uint32_t low, uint32_t high,
                          uint32_t *value) {
    char *after = NULL;
    errno = 0;
    const unsigned long long number = strtoull(text, &after, 10);
    if (text[0] < '0' || text[0] > '9' || errno != 0 || *after != end || number < low ||
        number > high) {
        return NULL;
    }
    *value = (uint32_t)number;
    return after;
}

static fed_status take(const option_row *row, const char *value, void *values, fed_error *err) {
    void *member = (char *)values + row->offset;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)member = true;
        return FED_OK;
    case OPTION_TEXT:
        *(const char **)member = value;
        return FED_OK;
    case OPTION_NUMBER:
        return option_number(value, '\0', row->low, row->high, member) != NULL
                   ? FED_OK
                   : fed_fail(err, FED_EINVAL, "--%s is a whole number from %u to %u, not %s",
                              row->name, row->low, row->high, value);
    default:
        return row->take(value, values, err);
    }
}

fed_status option_table_read(const option_row *rows, size_t count, unsigned command, int argc,
                             char **argv, void *values, int *words, fed_error *err) {
    int val = 0;
    struct option names[OPTION_ROWS + 1] = {{NULL, 0, NULL, 0}};
    assert(count <= OPTION_ROWS);
    for (size_t k = 0; k < count; k++) {
        names[k].name = rows[k].name;
        names[k].has_arg = rows[k].kind == OPTION_FLAG ? no_argument : required_argument;
        names[k].flag = &val;
        names[k].val = -1 - (int)k; /* see fed_option_refuse */
    }
    opterr = 0; /* getopt_long prints no errors: this function returns them */
    int which = 0;
    for (int found = 0; (found = getopt_long(argc, argv, ":", names, &which)) != -1;) {
        if (found != 0) {
            return fed_option_refuse(found, argv, names, err);
        }
        if ((rows[which].commands & command) == 0) {
            return fed_fail(err, FED_EINVAL, "%s has no option --%s", argv[0], rows[which].name);
        }
        FED_TRY(take(&rows[which], optarg, values, err));
    }
    *words = optind;
    return FED_OK;
}
