/* Text from outside: printable characters stay, and all else becomes question marks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/utf8.h"

static void assert_clean(const char *text, const char *wanted) {
    char copy[64];
    snprintf(copy, sizeof copy, "%s", text);
    fed_utf8_clean(copy);
    assert_string_equal(copy, wanted);
}

FED_TEST(test_readable_text_stays_as_it_is) {
    assert_clean("", "");
    assert_clean("samples are 784 values, the model takes 3072",
                 "samples are 784 values, the model takes 3072");
    assert_clean("Gr\xc3\xb6\xc3\x9f"
                 "e, \xe2\x82\xac, \xf0\x9f\x99\x82",
                 "Gr\xc3\xb6\xc3\x9f"
                 "e, \xe2\x82\xac, \xf0\x9f\x99\x82");
}

FED_TEST(test_control_characters_are_replaced) {
    assert_clean("a\nb\x1b[31m\x7f", "a?b?[31m?");
    assert_clean("a\xc2\x85"
                 "b\xe2\x80\xa8"
                 "c",
                 "a?b?c"); /* U+0085 next line, U+2028 line separator */
    assert_clean("a\xe2\x80\xae"
                 "b\xe2\x81\xa6"
                 "c",
                 "a?b?c"); /* right-to-left override, isolate */
    assert_clean("\xef\xbb\xbf"
                 "a\xef\xbf\xbf",
                 "?a?"); /* a byte order mark, a noncharacter */
}

FED_TEST(test_characters_that_nobody_sees_are_replaced) {
    static const char *const unseen[] = {
        "\xc2\xad",         /* U+00AD soft hyphen */
        "\xcd\x8f",         /* U+034F grapheme joiner */
        "\xe1\x85\xa0",     /* U+1160 filler */
        "\xe1\xa0\x8e",     /* U+180E vowel separator */
        "\xe2\x80\x8b",     /* U+200B zero-width space */
        "\xe2\x80\x8d",     /* U+200D zero-width joiner */
        "\xe2\x81\xa0",     /* U+2060 word joiner */
        "\xe2\x81\xa4",     /* U+2064 invisible plus */
        "\xe3\x85\xa4",     /* U+3164 filler */
        "\xef\xbf\xb9",     /* U+FFF9 annotation anchor */
        "\xf3\xa0\x81\xa1", /* U+E0061 tag a */
        "\xf3\xa0\x84\x80", /* U+E0100 variation selector */
    };
    for (size_t k = 0; k < sizeof unseen / sizeof unseen[0]; k++) {
        char text[16];
        snprintf(text, sizeof text, "a%sb", unseen[k]);
        assert_false(fed_utf8_shown(text));
        assert_clean(text, "a?b");
    }
    assert_true(fed_utf8_shown("a?b \xc3\xa4"));
    assert_false(fed_utf8_shown("a\xff"));
}

FED_TEST(test_bytes_that_are_not_utf8_are_replaced_one_by_one) {
    assert_clean("a\xff"
                 "b\x80",
                 "a?b?");
    assert_clean("\xc3", "?");                /* cut off */
    assert_clean("\xe2\x82", "??");           /* cut off after two bytes */
    assert_clean("\xc0\x80", "??");           /* overlong form, 2 bytes */
    assert_clean("\xe0\x9f\xbf", "???");      /* overlong form, 3 bytes */
    assert_clean("\xed\xa0\x80", "???");      /* half of a surrogate pair */
    assert_clean("\xf4\x90\x80\x80", "????"); /* above U+10FFFF, the last character */
    assert_clean("\xf8\x88\x80\x80\x80", "?????");
}

FED_TEST(test_a_text_is_valid_where_every_character_is_well_formed) {
    assert_true(fed_utf8_valid(""));
    assert_true(fed_utf8_valid("a\n\xc3\xa4\xf0\x9f\x98\x80"));
    assert_false(fed_utf8_valid("a\xff"));
    assert_false(fed_utf8_valid("\xc3"));
    assert_false(fed_utf8_valid("\xed\xa0\x80z"));
}

FED_TEST(test_bytes_are_valid_up_to_the_first_that_is_not_well_formed) {
    static const uint8_t text[] = "a\0\xc3\xa4\xf0\x9f\x98\x80";
    static const size_t valid[] = {0, 1, 2, 2, 4, 4, 4, 4, 8};
    for (size_t len = 0; len < sizeof text; len++) {
        uint8_t *exact = test_malloc(len + 1); /* a sanitizer sees a read past its end */
        memcpy(exact + 1, text, len);
        assert_int_equal(fed_utf8_valid_len(exact + 1, len), valid[len]);
        test_free(exact);
    }
}
