/* Headers of the PROXY protocol: whole, in pieces and damaged. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedserver/http/http_proxy.h"

#define V2 "\r\n\r\n\0\r\nQUIT\n"

static void reads(const char *bytes, size_t len, const char *wanted) {
    char text[HTTP_ADDRESS_TEXT];
    size_t used = 0;
    http_address address = {.known = false};
    for (size_t k = 0; k < len; k++) {
        assert_int_equal(http_proxy_read((const uint8_t *)bytes, k, &used, &address),
                         HTTP_PROXY_MORE);
    }
    char more[256];
    memcpy(more, bytes, len);
    memset(more + len, 0x16, sizeof more - len); /* TLS bytes after the header */
    assert_int_equal(http_proxy_read((const uint8_t *)more, sizeof more, &used, &address),
                     HTTP_PROXY_DONE);
    assert_int_equal(used, len);
    http_address_write(&address, text);
    assert_string_equal(text, wanted);
}
#define READS(bytes, wanted) reads(bytes, sizeof(bytes) - 1, wanted)

FED_TEST(a_line_names_the_client) {
    READS("PROXY TCP4 192.0.2.1 192.0.2.2 50000 8443\r\n", "192.0.2.1");
    READS("PROXY TCP6 2001:db8::1 2001:db8::2 50000 8443\r\n", "2001:db8::1");
    READS("PROXY UNKNOWN\r\n", "?");
    READS("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "?");
}

FED_TEST(a_binary_header_names_the_client) {
    READS(V2 "\x21\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\x12\x34\x56\x78", "192.0.2.1");
    READS(V2 "\x21\x11\0\x10\xc0\0\x02\x01\xc0\0\x02\x02\x12\x34\x56\x78\x04\0\x01x", "192.0.2.1");
    READS(V2 "\x21\x21\0\x24\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"
             "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02\x12\x34\x56\x78",
          "2001:db8::1");
    READS(V2 "\x21\x00\0\0", "?");
}

FED_TEST(a_proxys_own_connection_keeps_its_address) {
    static const char local[] = V2 "\x20\0\0\0";
    size_t used = 0;
    http_address address;
    assert_true(http_address_read("192.0.2.9", &address));
    assert_int_equal(http_proxy_read((const uint8_t *)local, sizeof local - 1, &used, &address),
                     HTTP_PROXY_DONE);
    char text[HTTP_ADDRESS_TEXT];
    http_address_write(&address, text);
    assert_string_equal(text, "192.0.2.9");
}

FED_TEST(what_is_no_header_is_refused) {
#define BYTES(text)                                                                                \
    { text, sizeof(text) - 1 }
    static const struct {
        const char *bytes;
        size_t len;
    } wrong[] = {
        BYTES("\x16\x03\x01"),
        BYTES("PROXY TCP4 192.0.2.1 192.0.2.2 50000\r\n"),
        BYTES("PROXY TCP4 192.0.2.1 192.0.2.2 50000 8443 x\r\n"),
        BYTES("PROXY TCP4 192.0.2.1 192.0.2.2 50000 99999\r\n"),
        BYTES("PROXY TCP4 192.0.2.300 192.0.2.2 50000 8443\r\n"),
        BYTES("PROXY TCP4 2001:db8::1 2001:db8::2 50000 8443\r\n"),
        BYTES("PROXY TCP6 192.0.2.1 192.0.2.2 50000 8443\r\n"),
        BYTES("PROXY TCP4 192.0.2.1 192.0.2.2 50000 8443\n"),
        BYTES("PROXY TCP4 192.0.2.1\0192.0.2.2 50000 8443\r\n"),
        BYTES("PROXY UDP4 192.0.2.1 192.0.2.2 50000 8443\r\n"),
        BYTES(
            "PROXY xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
        BYTES(V2 "\x11\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\x12\x34\x56\x78"),
        BYTES(V2 "\x22\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\x12\x34\x56\x78"),
        BYTES(V2 "\x21\x11\0\x04\xc0\0\x02\x01"),
        BYTES(V2 "\x21\x21\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\x12\x34\x56\x78"),
        BYTES(V2 "\x21\x11\xff\xff"),
    };
#undef BYTES
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        size_t used = 77;
        http_address address = {.known = false};
        if (http_proxy_read((const uint8_t *)wrong[k].bytes, wrong[k].len, &used, &address) !=
                HTTP_PROXY_NONE ||
            used != 77 || address.known) {
            fail_msg("a wrong PROXY header was accepted: %s", wrong[k].bytes);
        }
    }
}

FED_TEST(an_ipv6_network_has_one_key_and_ipv4_hosts_each_their_own) {
    static const struct {
        const char *a, *b;
        bool same;
    } pairs[] = {
        {"2001:db8::1", "2001:db8::2", true},
        {"2001:db8::1", "2001:db8:0:1::1", false},
        {"192.0.2.1", "192.0.2.2", false},
        {"192.0.2.1", "::ffff:192.0.2.1", true},
    };
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        http_address a, b;
        uint8_t of_a[FED_SHA256_SIZE], of_b[FED_SHA256_SIZE];
        assert_true(http_address_read(pairs[k].a, &a) && http_address_read(pairs[k].b, &b));
        http_address_key(&a, of_a);
        http_address_key(&b, of_b);
        assert_int_equal(memcmp(of_a, of_b, sizeof of_a) == 0, pairs[k].same);
    }
}
