/* The table of collectives, and the specs that name its rows. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedclient/datacenter/collective.h"
#include "feddc/exchange.h"

FED_TEST(each_name_is_a_spec) {
    for (size_t k = 0; feddc_collective_name(k) != NULL; k++) {
        const feddc_collective_vtable *found = NULL;
        double param[FEDDC_COLLECTIVE_PARAMS];
        fed_error err = {0};
        assert_int_equal(feddc_collective_parse(feddc_collective_name(k), &found, param, &err),
                         FED_OK);
        assert_ptr_equal(found, feddc_collective_at(k));
        assert_non_null(feddc_collective_about(k));
    }
}

FED_TEST(a_wrong_spec_is_refused_with_its_word) {
    const feddc_collective_vtable *found = NULL;
    double param[FEDDC_COLLECTIVE_PARAMS];
    fed_error err = {0};
    assert_int_equal(feddc_collective_parse("gossip:n=2", &found, param, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "\"gossip\""));
    assert_null(found);
}
