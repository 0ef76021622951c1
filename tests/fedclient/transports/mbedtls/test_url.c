/* Splitting URLs into their parts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedclient/transports/mbedtls/url.h"

FED_TEST(an_address_has_its_parts) {
    static const struct {
        const char *text, *host, *port, *authority, *path;
    } cases[] = {
        {"https://a.example:8443/v1/x?y=1", "a.example", "8443", "a.example:8443", "/v1/x?y=1"},
        {"HTTPS://a.example", "a.example", "443", "a.example", "/"},
        {"https://127.0.0.1:1/", "127.0.0.1", "1", "127.0.0.1:1", "/"},
        {"https://[::1]:65535/x", "::1", "65535", "[::1]:65535", "/x"},
        {"https://[fe80::1]/", "fe80::1", "443", "[fe80::1]", "/"}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        fedclient_url url;
        assert_true(fedclient_url_split(cases[k].text, &url));
        assert_string_equal(url.host, cases[k].host);
        assert_string_equal(url.port, cases[k].port);
        assert_string_equal(url.path, cases[k].path);
        assert_int_equal(url.authority_len, strlen(cases[k].authority));
        assert_memory_equal(url.authority, cases[k].authority, url.authority_len);
    }
}

FED_TEST(what_is_no_address_is_refused) {
    static const char *const texts[] = {"",
                                        "http://a/",
                                        "https:/a/",
                                        "https://",
                                        "https:///x",
                                        "https://:1/",
                                        "https://a:/",
                                        "https://a:65536/",
                                        "https://a:123456/",
                                        "https://a:1x/",
                                        "https://user@a/",
                                        "https://a b/",
                                        "https://a?x",
                                        "https://a/x y",
                                        "https://a/\r\nHost: b",
                                        "https://[::1/",
                                        "https://[]/",
                                        "https://[name]/",
                                        "https://::1/"};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        fedclient_url url;
        if (fedclient_url_split(texts[k], &url)) {
            fail_msg("a wrong URL was accepted: %s", texts[k]);
        }
    }
    char text[400] = "https://";
    fedclient_url url;
    memset(text + 8, 'a', 254);
    assert_false(fedclient_url_split(text, &url));
    text[8 + 253] = '\0';
    assert_true(fedclient_url_split(text, &url));
}
