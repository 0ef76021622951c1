/* What the machine says of itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/machine.h"

FED_TEST(a_machine_has_some_memory_and_not_all_of_it) {
    assert_true(fed_machine_bytes() > UINT64_C(16) << 20);
    assert_true(fed_machine_bytes() < UINT64_C(1) << 50);
}
