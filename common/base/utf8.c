/* Well-formed UTF-8 (RFC 3629), and the characters that may be shown to people. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/utf8.h"

#include <stdint.h>
#include <string.h>

/* Read the character at text, which has `left` bytes. Returns the character's length in bytes, or 0
 * if it is not well-formed. */
static size_t take(const uint8_t *text, size_t left, uint32_t *character) {
    /* least[k] is the least character that takes k bytes. */
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t first = text[0];
    const size_t len = first < 0x80   ? 1
                       : first < 0xc0 ? 0
                       : first < 0xe0 ? 2
                       : first < 0xf0 ? 3
                                      : 4;
    if (len == 0 || len > left || first >= 0xf8) {
        return 0;
    }
    *character = len == 1 ? first : first & (0x7fu >> len);
    for (size_t k = 1; k < len; k++) {
        if ((text[k] & 0xc0) != 0x80) {
            return 0;
        }
        *character = *character << 6 | (text[k] & 0x3fu);
    }
    const bool surrogate = *character >= 0xd800 && *character < 0xe000;
    return *character < least[len] || *character > 0x10ffff || surrogate ? 0 : len;
}

static bool within(uint32_t character, uint32_t first, uint32_t last) {
    return character >= first && character <= last;
}

static bool printable(uint32_t c) {
    return c >= ' ' && !within(c, 0x7f, 0x9f) &&        /* control characters */
           c != 0xad && c != 0x34f && c != 0x61c &&     /* without a width of their own */
           !within(c, 0x115f, 0x1160) && c != 0x3164 && /* fillers, which look like nothing */
           !within(c, 0x17b4, 0x17b5) &&                /* vowels that are not shown */
           !within(c, 0x180b, 0x180f) &&                /* Mongolian selectors */
           !within(c, 0x200b, 0x200f) &&                /* zero width, marks of direction */
           !within(c, 0x2028, 0x202e) &&                /* line ends, marks of direction */
           !within(c, 0x2060, 0x206f) &&                /* zero width, marks of direction */
           c != 0xfeff && !within(c, 0xfff9, 0xfffb) && /* zero width, annotations */
           !within(c, 0xe0000, 0xe0fff) &&              /* tags, selectors */
           (c & 0xfffe) != 0xfffe;                      /* U+FFFE, U+1FFFF, ... */
}

bool fed_utf8_valid(const char *text) {
    const size_t len = strlen(text);
    return fed_utf8_valid_len((const uint8_t *)text, len) == len;
}

size_t fed_utf8_valid_len(const uint8_t *text, size_t len) {
    size_t at = 0, taken = 1;
    for (uint32_t character; at < len && taken > 0; at += taken) {
        taken = take(text + at, len - at, &character);
    }
    return at;
}

bool fed_utf8_shown(const char *text) {
    size_t taken = 0;
    for (size_t left = strlen(text); left > 0; left -= taken, text += taken) {
        uint32_t character = 0;
        taken = take((const uint8_t *)text, left, &character);
        if (taken == 0 || !printable(character)) {
            return false;
        }
    }
    return true;
}

void fed_utf8_clean(char *text) {
    char *to = text;
    size_t left = strlen(text);
    while (*text != '\0') {
        uint32_t character = 0;
        const size_t len = take((const uint8_t *)text, left, &character);
        if (len > 0 && printable(character)) {
            memmove(to, text, len);
            to += len;
        } else {
            *to++ = '?';
        }
        text += len > 0 ? len : 1;
        left -= len > 0 ? len : 1;
    }
    *to = '\0';
}
