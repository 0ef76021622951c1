/* Tests that a program finds by itself: each is written once, and stands in no list. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CASES_H
#define FED_CASES_H

#include "fed_test.h"

/** A test that needs no state: FED_TEST(what_it_states) { ... }. A file whose tests are all of this
 * kind needs no main: the one of fed_cases_main.c runs them, in the order of the file. */
#define FED_TEST(name)                                                                             \
    static void name(void);                                                                        \
    __attribute__((constructor)) static void name##_is_a_case(void) {                              \
        static fed_case one = {#name, name, __LINE__, NULL};                                       \
        fed_case_add(&one);                                                                        \
    }                                                                                              \
    static void name(void)

/** What FED_TEST knows of a test. */
typedef struct fed_case {
    const char *name;
    fed_test_body body;
    int line;
    struct fed_case *next;
} fed_case;

void fed_case_add(fed_case *one);

/** For a main of the file's own: run its tests between these two, which leave *state alone. Either
 * may be NULL. Returns how many failed. */
int fed_cases_run(CMFixtureFunction setup, CMFixtureFunction teardown);

#endif
