/* A public key is read from a file as it is handed out, and nothing else is taken for one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fed/hash.h"
#include "fed/point.h"
#include "fed_cases.h"
#include "fed_test.h"

enum { HEX = 2 * FED_POINT + 1 };

static void new_key(uint8_t key[FED_POINT], char hex[HEX]) {
    uint8_t secret[FED_POINT_SECRET];
    fed_error err = {0};
    assert_fed_ok_err(fed_point_new(secret, key, &err));
    fed_hex(key, FED_POINT, hex);
}

FED_TEST(a_key_is_read_with_what_people_leave_around_it) {
    uint8_t key[FED_POINT];
    fed_points found;
    char directory[200], path[300], hex[HEX], text[200];
    fed_error err = {0};
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/helper.pem", directory);
    new_key(key, hex);
    snprintf(text, sizeof text, "\n %s\r\n", hex);
    fed_test_put(directory, "helper.pem", text, strlen(text));
    assert_fed_ok_err(fed_points_load(path, &found, &err));
    assert_int_equal(found.count, 1);
    assert_memory_equal(found.at[0], key, sizeof key);

    char twice[300], large[3000];
    snprintf(twice, sizeof twice, "%s %s", hex, hex);
    memset(large, ' ', sizeof large);
    const char *const wrong[] = {"",      "04abcd", "-----BEGIN CERTIFICATE-----\nMIIB\n",
                                 hex + 1, text,     twice};
    text[2] = '1'; /* not the form of a point: 14... */
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        fed_test_put(directory, "helper.pem", wrong[k], strlen(wrong[k]));
        assert_fed_fails(fed_points_load(path, &found, &err), FED_EFORMAT,
                         "helper.pem has no helper's key: its 130 hex digits");
    }
    fed_test_put(directory, "helper.pem", large, sizeof large);
    assert_fed_fails(fed_points_load(path, &found, &err), FED_EFORMAT, "has no helper's key");
    assert_memory_equal(found.at[0], key, sizeof key);
    assert_int_equal(remove(path), 0);
    assert_fed_fails(fed_points_load(path, &found, &err), FED_ENOTFOUND, "helper.pem");
    fed_test_rmdir(directory);
}

FED_TEST(a_spare_key_stands_behind_the_key) {
    uint8_t key[FED_POINT], spare[FED_POINT], third[FED_POINT];
    fed_points found;
    char first[HEX], second[HEX], more[HEX], text[3 * HEX], again[FED_POINTS_TEXT];
    fed_error err = {0};
    new_key(key, first);
    new_key(spare, second);
    new_key(third, more);
    snprintf(text, sizeof text, "%s\n%s\n", first, second);
    assert_fed_ok_err(fed_points_read(text, &found, &err));
    assert_int_equal(found.count, 2);
    assert_memory_equal(found.at[0], key, sizeof key);
    assert_memory_equal(found.at[1], spare, sizeof spare);
    fed_points_write(&found, again);
    snprintf(text, sizeof text, "%s %s", first, second);
    assert_string_equal(again, text);
    snprintf(text, sizeof text, "%s %s %s", first, second, more);
    assert_fed_fails(fed_points_read(text, &found, &err), FED_EFORMAT, "130 hex digits");
}

int main(void) {
    return fed_cases_run(NULL, NULL);
}
