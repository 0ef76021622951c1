/* A public key is read from a file as it is handed out, and nothing else is taken for one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fed/hash.h"
#include "fed/point.h"
#include "fed_cases.h"
#include "fed_test.h"

FED_TEST(a_key_is_read_with_what_people_leave_around_it) {
    uint8_t secret[FED_POINT_SECRET], key[FED_POINT], found[FED_POINT];
    char directory[200], path[300], hex[2 * FED_POINT + 1], text[200];
    fed_error err = {0};
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/helper.pem", directory);
    assert_fed_ok_err(fed_point_new(secret, key, &err));
    fed_hex(key, sizeof key, hex);
    snprintf(text, sizeof text, "\n %s\r\n", hex);
    fed_test_put(directory, "helper.pem", text, strlen(text));
    assert_fed_ok_err(fed_point_load(path, found, &err));
    assert_memory_equal(found, key, sizeof key);

    const char *const wrong[] = {"", "04abcd", "-----BEGIN CERTIFICATE-----\nMIIB\n", hex + 1,
                                 text};
    text[2] = '1'; /* not the form of a point: 14... */
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        fed_test_put(directory, "helper.pem", wrong[k], strlen(wrong[k]));
        assert_fed_fails(fed_point_load(path, found, &err), FED_EFORMAT,
                         "helper.pem has no helper's key: its 130 hex digits");
    }
    assert_memory_equal(found, key, sizeof key);
    assert_int_equal(remove(path), 0);
    assert_fed_fails(fed_point_load(path, found, &err), FED_ENOTFOUND, "helper.pem");
    fed_test_rmdir(directory);
}

int main(void) {
    return fed_cases_run(NULL, NULL);
}
