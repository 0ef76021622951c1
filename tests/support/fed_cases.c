/* Runs the tests that registered themselves (fed_cases.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

static fed_case *first;
static size_t count;

/* Insert the test by its line, because the order of constructors is not defined. */
void fed_case_add(fed_case *one) {
    fed_case **at = &first;
    while (*at != NULL && (*at)->line < one->line) {
        at = &(*at)->next;
    }
    one->next = *at;
    *at = one;
    count++;
}

typedef struct fixture {
    CMFixtureFunction setup, teardown;
} fixture;

static int run(fixture group, fixture each) {
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    if (tests == NULL) {
        return 1;
    }
    size_t k = 0;
    for (const fed_case *one = first; one != NULL; one = one->next) {
        tests[k++] = (struct CMUnitTest){.name = one->name,
                                         .test_func = one->function,
                                         .setup_func = each.setup,
                                         .teardown_func = each.teardown};
    }
    const int failed = _cmocka_run_group_tests("tests", tests, count, group.setup, group.teardown);
    free(tests);
    return failed;
}

int fed_cases_run(CMFixtureFunction setup, CMFixtureFunction teardown) {
    return run((fixture){setup, teardown}, (fixture){NULL, NULL});
}

int fed_cases_run_each(CMFixtureFunction setup, CMFixtureFunction teardown) {
    return run((fixture){NULL, NULL}, (fixture){setup, teardown});
}
