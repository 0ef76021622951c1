/* Tests that register themselves, so that no list of them is needed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CASES_H
#define FED_CASES_H

#include "fed_test.h"

/** Define a test: FED_TEST(what_it_states) { ... }. fed_cases_main.c has a main that runs the
 * file's tests in their order. */
#define FED_TEST(name)                                                                             \
    static void name(void);                                                                        \
    FED_CASE(name, ((void)fed_state, name()))                                                      \
    static void name(void)

/** Define a test with a parameter, the *state of its setup: FED_TEST_WITH(what_it_states, world *w)
 * { ... }. */
#define FED_TEST_WITH(name, parameter)                                                             \
    static void name(parameter);                                                                   \
    FED_CASE(name, name(*fed_state))                                                               \
    static void name(parameter)

#define FED_CASE(name, call)                                                                       \
    static void name##_of_state(void **fed_state) {                                                \
        call;                                                                                      \
    }                                                                                              \
    __attribute__((constructor)) static void name##_is_a_case(void) {                              \
        static fed_case one = {#name, name##_of_state, __LINE__, NULL};                            \
        fed_case_add(&one);                                                                        \
    }

typedef struct fed_case {
    const char *name;
    CMUnitTestFunction function;
    int line;
    struct fed_case *next;
} fed_case;

void fed_case_add(fed_case *one);

/** For a program with its own main: run its tests. setup and teardown, which may be NULL, are
 * called once, or (_each) for each test. Returns how many tests failed. */
int fed_cases_run(CMFixtureFunction setup, CMFixtureFunction teardown);
int fed_cases_run_each(CMFixtureFunction setup, CMFixtureFunction teardown);

#endif
