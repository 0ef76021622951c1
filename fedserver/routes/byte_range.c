/* Reads the headers Range and If-Range. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/routes/byte_range.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void fedserver_tag_write(uint64_t tag, char dst[FEDSERVER_TAG_TEXT]) {
    snprintf(dst, FEDSERVER_TAG_TEXT, "\"%016" PRIx64 "\"", tag);
}

/* Read a number, and move *text behind its digits. False: there are no digits. A number beyond 64
 * bits becomes UINT64_MAX. */
static bool read_number(const char **text, uint64_t *number) {
    const char *c = *text;
    uint64_t value = 0;
    for (; *c >= '0' && *c <= '9'; c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : value * 10 + digit;
    }
    bool some = c != *text;
    *text = c;
    *number = value;
    return some;
}

static bool read_ends(const char *text, uint64_t total, uint64_t *first, uint64_t *last) {
    bool from = read_number(&text, first);
    if (*text++ != '-') {
        return false;
    }
    bool to = read_number(&text, last);
    if (*text != '\0' || (!from && !to)) {
        return false;
    }
    if (!from) {
        *first = *last == 0 ? UINT64_MAX : *last < total ? total - *last : 0;
        *last = UINT64_MAX;
    } else if (!to) {
        *last = UINT64_MAX;
    }
    return *first <= *last;
}

fedserver_range_kind fedserver_range_read(const char *range, const char *if_range, uint64_t total,
                                          uint64_t tag, uint64_t *first, uint64_t *len) {
    static const char unit[] = "bytes=";
    char same[FEDSERVER_TAG_TEXT];
    uint64_t from = 0, last = 0;
    fedserver_tag_write(tag, same);
    if (range == NULL || (if_range != NULL && strcmp(if_range, same) != 0) ||
        strncasecmp(range, unit, sizeof unit - 1) != 0 ||
        !read_ends(range + sizeof unit - 1, total, &from, &last)) {
        return FEDSERVER_RANGE_WHOLE;
    }
    if (from >= total) {
        return FEDSERVER_RANGE_NONE;
    }
    last = last < total ? last : total - 1;
    *first = from;
    *len = last - from + 1;
    return FEDSERVER_RANGE_PART;
}
