/* The table of backends: their names, and the error for a name that does not exist. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedclient/train/backend_vtable.h"
#include "fedtrain/backend.h"
#include "fedtrain/net.h"

FED_TEST(test_names_find_their_backends) {
    const fedtrain_backend_vtable *found;
    const char *name;
    size_t k = 0;
    for (; (name = fedtrain_backend_name(k)) != NULL; k++) {
        assert_fed_ok(fedtrain_backend_find(name, &found, NULL));
        assert_ptr_equal(found, fedtrain_backend_get(k));
        assert_fed_ok(fedtrain_backend_fits(name, NULL, NULL));
    }
    assert_true(k >= 2);
    assert_null(fedtrain_backend_get(k));
    assert_fed_ok(fedtrain_backend_find(NULL, &found, NULL));
    assert_string_equal(found->name, "fast");
}

FED_TEST(test_a_backend_that_is_not_there_is_answered_with_those_that_are) {
    fed_error err = {0};
    fed_arch arch;
    fedtrain_net *net = NULL;
    assert_fed_status(fedtrain_backend_fits("abacus", NULL, &err), FED_EINVAL);
    assert_fed_says(err, "\"abacus\"");
    assert_fed_says(err, "fast, bfloat16, reference");
    assert_fed_ok(fed_arch_parse("input 2 | dense 2", &arch, &err));
    assert_fed_status(fedtrain_net_new(&arch, 1, "abacus", &net, &err), FED_EINVAL);
    assert_fed_says(err, "abacus");
    assert_null(net);
    fed_arch_free(&arch);
}
