/* Tells the user which word of a command line is wrong, and what is wrong with it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/command_line.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { WORD = 32, MISTAKES = 2 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Count the letters to insert, delete, replace or swap with their neighbour to make a of b. */
static size_t count_mistakes(const char *a, const char *b) {
    size_t row[3][WORD + 1]; /* row i % 3, column j: the mistakes of i letters of a, j of b */
    const size_t a_len = strlen(a), b_len = strlen(b);
    if (a_len > WORD || b_len > WORD) {
        return SIZE_MAX;
    }
    for (size_t i = 0; i <= a_len; i++) {
        for (size_t j = 0; j <= b_len; j++) {
            size_t *count = &row[i % 3][j];
            if (i == 0 || j == 0) {
                *count = i + j;
                continue;
            }
            const size_t *before = row[(i + 2) % 3], *before_that = row[(i + 1) % 3];
            *count = least(before[j - 1] + (a[i - 1] != b[j - 1]),
                           least(before[j], row[i % 3][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                *count = least(*count, before_that[j - 2] + 1);
            }
        }
    }
    return row[a_len % 3][b_len];
}

/* Return the nearest name, or NULL if no name is near: half of its letters must be right. */
static const char *find_nearest(const char *word, const char *const *names) {
    const char *nearest = NULL;
    size_t fewest = MISTAKES + 1;
    for (size_t k = 0; names[k] != NULL; k++) {
        const size_t mistakes = count_mistakes(word, names[k]);
        if (mistakes < fewest && 2 * mistakes <= strlen(names[k])) {
            fewest = mistakes;
            nearest = names[k];
        }
    }
    return nearest;
}

fed_status fed_command_refuse(const char *word, const char *const *names, fed_error *err) {
    char all[300] = "";
    const char *nearest = find_nearest(word, names);
    if (word[0] != '\0' && nearest != NULL) {
        return fed_fail(err, FED_EINVAL, "unknown command %s: did you mean %s?", word, nearest);
    }
    for (size_t k = 0, used = 0; names[k] != NULL && used < sizeof all; k++) {
        used +=
            (size_t)snprintf(all + used, sizeof all - used, "%s%s", k > 0 ? ", " : "", names[k]);
    }
    return word[0] == '\0'
               ? fed_fail(err, FED_EINVAL, "a command is missing: the commands are %s", all)
               : fed_fail(err, FED_EINVAL, "unknown command %.40s: the commands are %s", word, all);
}

/* List the options that begin with the word, as "--here, --host". Returns their number. */
static size_t list_begun(const char *word, const struct option *names, char *dst, size_t cap) {
    const size_t len = strcspn(word, "=");
    size_t count = 0;
    for (size_t k = 0, used = 0; names[k].name != NULL && used < cap; k++) {
        if (strncmp(names[k].name, word, len) == 0) {
            used += (size_t)snprintf(dst + used, cap - used, "%s--%s", count > 0 ? ", " : "",
                                     names[k].name);
            count++;
        }
    }
    return count;
}

fed_status fed_option_refuse(int found, char *const *argv, const struct option *names,
                             fed_error *err) {
    char begun[200] = "";
    if (found == '?' && optopt > 0) {
        return fed_fail(err, FED_EINVAL, "unknown option -%c: options begin with --", optopt);
    }
    const char *word = argv[optind - 1];
    if (found == ':') {
        return fed_fail(err, FED_EINVAL, "a value is missing after %s", word);
    }
    const int len = (int)strcspn(word, "=");
    const size_t count = len > 2 ? list_begun(word + 2, names, begun, sizeof begun) : 0;
    if (count > 1) {
        return fed_fail(err, FED_EINVAL, "%.*s is short for several options: %s", len, word, begun);
    }
    return count == 1 ? fed_fail(err, FED_EINVAL, "%s takes no value", begun)
                      : fed_fail(err, FED_EINVAL, "unknown option %.*s", len, word);
}
