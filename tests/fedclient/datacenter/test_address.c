/* Addresses as text: host and port, with and without brackets, and what is none. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"
#include "fedclient/datacenter/address.h"

enum { HOST = 12, PORT = 6 };

static void assert_split(const char *address, const char *host, const char *port) {
    char got_host[HOST], got_port[PORT];
    assert_int_equal(feddc_address_split(address, got_host, HOST, got_port, PORT, NULL), FED_OK);
    assert_string_equal(got_host, host);
    assert_string_equal(got_port, port);
}

static void assert_refused(const char *address) {
    char host[HOST], port[PORT];
    fed_error err = {0};
    assert_int_equal(feddc_address_split(address, host, HOST, port, PORT, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "write host:port or [host]:port"));
}

static void host_and_port_are_parted_at_the_last_colon(void **state) {
    (void)state;
    assert_split("10.0.0.1:7000", "10.0.0.1", "7000");
    assert_split("[fe80::1]:80", "fe80::1", "80");
    assert_split("::1:80", "::1", "80");
    assert_split("hostname-11:12345", "hostname-11", "12345");
}

static void what_lacks_a_part_or_is_too_long_is_refused(void **state) {
    (void)state;
    assert_refused("");
    assert_refused("host");
    assert_refused("host:");
    assert_refused(":80");
    assert_refused("[]:80");
    assert_refused("hostname-012:80");
    assert_refused("host:123456");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_and_port_are_parted_at_the_last_colon),
        cmocka_unit_test(what_lacks_a_part_or_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
