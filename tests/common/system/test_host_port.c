/* Addresses as text: host and port, with and without brackets, and texts that are refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/host_port.h"
#include "fed_cases.h"

static void assert_read(const char *text, const char *host, uint16_t port) {
    fed_host_port at;
    fed_error err = {0};
    assert_fed_ok_err(fed_host_port_read(text, 0, &at, &err));
    assert_string_equal(at.host, host);
    assert_int_equal(at.port, port);
    assert_int_equal(strtoul(at.port_text, NULL, 10), port);
}

static void assert_refused(const char *text, const char *why) {
    fed_host_port at = {.host = "as before"};
    fed_error err = {0};
    assert_fed_status(fed_host_port_read(text, 1, &at, &err), FED_EINVAL);
    assert_fed_says(err, why);
    assert_fed_says(err, "write HOST:PORT or [IPV6]:PORT");
    assert_string_equal(at.host, "as before");
}

FED_TEST(host_and_port_are_parted_at_the_last_colon) {
    assert_read("10.0.0.1:7000", "10.0.0.1", 7000);
    assert_read("[fe80::1]:80", "fe80::1", 80);
    assert_read("name.example:65535", "name.example", 65535);
    assert_read("localhost:0", "localhost", 0);
}

FED_TEST(what_is_wrong_is_said) {
    const char *const ports[] = {"",        "host",       "host:",         "host:0",   "host:65536",
                                 "host:-1", "host:1e3",   "host: 80",      "host:80 ", "host:http",
                                 "[::1]",   "host:99999", "host:00000080", "host:+80"};
    for (size_t k = 0; k < sizeof ports / sizeof ports[0]; k++) {
        assert_refused(ports[k], "its port is not 1 to 65535");
    }
    assert_refused(":80", "its host is missing");
    assert_refused("[]:80", "its host is missing");
    assert_refused("::1:80", "its IPv6 address has no brackets");
    assert_refused("[::1:80", "its IPv6 address has no brackets");
}

FED_TEST(a_host_has_room_for_each_name) {
    char text[FED_HOST + 4], host[FED_HOST];
    memset(host, 'a', sizeof host - 1);
    host[sizeof host - 1] = '\0';
    snprintf(text, sizeof text, "%s:80", host);
    assert_read(text, host, 80);
    snprintf(text, sizeof text, "a%s:8", host);
    assert_refused(text, "its host is too long");
}
