/* Parsing the specs of NICs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/nic/nic.h"

#include "fed_cases.h"

static void assert_nic(const char *spec, feddc_nic_kind kind, int e) {
    feddc_nic nic = {.e = -1};
    fed_error err = {0};
    assert_fed_ok_err(feddc_nic_parse(spec, &nic, &err));
    assert_int_equal(nic.kind, kind);
    assert_int_equal(nic.e, e);
}

FED_TEST(a_spec_names_the_nic_and_its_bound) {
    assert_nic(NULL, FEDDC_NIC_NONE, 0);
    assert_nic("inline", FEDDC_NIC_INLINE, 10);
    assert_nic("inline:e=1", FEDDC_NIC_INLINE, 1);
    assert_nic("packet", FEDDC_NIC_PACKET, 10);
    assert_nic("packet:e=15", FEDDC_NIC_PACKET, 15);
}

FED_TEST(what_is_no_nic_is_refused_by_its_name) {
    static const char *const wrong[][2] = {
        {"card", "no nic \"card\""},       {"", "no nic"},
        {"inlined", "no nic \"inlined\""}, {"inline:e=0", "nic inline"},
        {"packet:e=16", "nic packet"},     {"packet:e=2.5", "nic packet"},
        {"packet:f=2", "nic packet"}};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        feddc_nic nic;
        fed_error err = {0};
        assert_fed_status(feddc_nic_parse(wrong[k][0], &nic, &err), FED_EINVAL);
        assert_fed_says(err, wrong[k][1]);
    }
}
