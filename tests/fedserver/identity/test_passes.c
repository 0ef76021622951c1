/* A token carries 256 random bits as base64url. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "fed_cases.h"

#include "fedserver/identity/passes.h"

enum { TOKENS = 200, BITS = 6 * (FEDSERVER_TOKEN - 1) };

static unsigned digit(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    assert_non_null(at);
    return (unsigned)(at - digits);
}

/* The last two of the 258 bits only pad. A bit that follows from an earlier one would agree with
 * it, or differ from it, in all tokens; two that don't do so with probability 2^-199. */
FED_TEST(its_256_bits_are_independent_of_each_other) {
    static bool bit[TOKENS][BITS];
    for (int t = 0; t < TOKENS; t++) {
        char token[FEDSERVER_TOKEN];
        fed_error err = {0};
        assert_fed_ok_err(fedserver_token_make(token, &err));
        assert_int_equal(strlen(token), FEDSERVER_TOKEN - 1);
        for (int k = 0; k < BITS; k++) {
            bit[t][k] = digit(token[k / 6]) >> (5 - k % 6) & 1;
        }
        assert_false(bit[t][256] || bit[t][257]);
    }
    for (int a = 0; a < 256; a++) {
        for (int b = 0; b < a; b++) {
            int same = 0;
            for (int t = 0; t < TOKENS; t++) {
                same += bit[t][a] == bit[t][b];
            }
            assert_true(same > 0 && same < TOKENS);
        }
    }
}

int main(void) {
    return fed_cases_run(NULL, NULL);
}
