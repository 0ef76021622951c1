/* Public keys as text, and in a file, as a helper of private sums hands them out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fed/file.h"
#include "fed/hash.h"
#include "fed/point.h"

/* Read the next word as a key. *end: it is the end of the text instead. */
static fed_status read_word(const char **text, uint8_t point[FED_POINT], bool *end) {
    static const char blanks[] = " \t\r\n";
    char word[2 * FED_POINT + 1];
    fed_error why;
    const char *begin = *text + strspn(*text, blanks);
    const size_t len = strcspn(begin, blanks);
    *text = begin + len;
    *end = len == 0;
    if (len == 0) {
        return FED_OK;
    }
    FED_REQUIRE(len < sizeof word, FED_EFORMAT);
    memcpy(word, begin, len);
    word[len] = '\0';
    FED_TRY(fed_unhex(word, point, FED_POINT));
    return fed_point_check(point, &why) == FED_OK ? FED_OK : FED_EFORMAT;
}

static fed_status read_all(const char *text, fed_points *points) {
    fed_points found = {.count = 0};
    uint8_t point[FED_POINT];
    for (bool end = false; !end;) {
        FED_TRY(read_word(&text, point, &end));
        if (!end) {
            FED_REQUIRE(found.count < 2, FED_EFORMAT);
            memcpy(found.at[found.count++], point, sizeof point);
        }
    }
    FED_REQUIRE(found.count > 0, FED_EFORMAT);
    FED_REQUIRE(found.count == 1 || memcmp(found.at[0], found.at[1], FED_POINT) != 0, FED_EFORMAT);
    *points = found;
    return FED_OK;
}

fed_status fed_points_read(const char *text, fed_points *points, fed_error *err) {
    return read_all(text, points) == FED_OK
               ? FED_OK
               : fed_fail(err, FED_EFORMAT,
                          "it is not the seal key of a helper, 130 hex digits, with a spare one "
                          "behind it or without");
}

void fed_points_write(const fed_points *points, char text[FED_POINTS_TEXT]) {
    char *at = text;
    for (unsigned k = 0; k < points->count; k++) {
        if (k > 0) {
            *at++ = ' ';
        }
        fed_hex(points->at[k], FED_POINT, at);
        at += strlen(at);
    }
}

fed_status fed_points_load(const char *path, fed_points *points, fed_error *err) {
    enum { TEXT_MOST = 8 * FED_POINT };
    char *text = NULL;
    size_t len = 0;
    fed_error why = {0};
    fed_status status = fed_file_read_text(path, TEXT_MOST, &text, &len, &why);
    if (status != FED_OK && status != FED_ERANGE) {
        return fed_fail(err, status, "%s", why.text);
    }
    if (status == FED_OK && (strlen(text) != len || read_all(text, points) != FED_OK)) {
        status = FED_EFORMAT;
    }
    free(text);
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, FED_EFORMAT,
                          "%s has no helper's key: its 130 hex digits, as in the helper's "
                          "helper.pem",
                          path);
}
