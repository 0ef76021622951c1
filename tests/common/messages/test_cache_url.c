/* Which URLs a cache may have. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/wire.h"

FED_TEST(a_cache_has_a_host_and_a_path_that_ends_with_a_slash) {
    static const char *const right[] = {"",
                                        "https://cdn.example.org/v1/blob/",
                                        "http://192.0.2.1:8080/",
                                        "http://[::1]:80/",
                                        "http://a/",
                                        "https://a/b@c/d=e,f/"};
    for (size_t k = 0; k < sizeof right / sizeof right[0]; k++) {
        fed_error err = {0};
        assert_fed_ok_err(fed_cache_url_check(right[k], &err));
    }
}

FED_TEST(any_other_url_is_refused_with_a_sentence) {
    static const char *const wrong[] = {"cdn.example.org/", "/",
                                        "http://",          "http:///",
                                        "http://:80/",      "HTTP://a/",
                                        "ftp://a/",         "file:///etc/",
                                        "https://a",        "https://a/b",
                                        "https://user@a/",  "https://user:password@a/",
                                        "https://a/?b/",    "https://a/#/",
                                        "https://a/ b/",    "https://a/\n/",
                                        "https://a\\b/",    "https://\xc3\xa4/"};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        fed_error err = {0};
        assert_fed_status(fed_cache_url_check(wrong[k], &err), FED_EINVAL);
        assert_fed_says(err, "https://cdn.example.org/v1/blob/");
    }
}
