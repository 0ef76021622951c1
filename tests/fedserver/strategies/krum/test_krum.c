/* Krum, against its definition. */
#include "fed_test.h"
#include "strategy_case.h"

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double score(const strategy_round *round, int d, int f) {
    double distance[CASE_DEVICES] = {0}, sum = 0;
    for (int e = 0; e < CASE_DEVICES; e++) {
        for (int i = 0; i < CASE_VALUES; i++) {
            double x = (double)round->x[d][i] - (double)round->x[e][i];
            distance[e] += x * x;
        }
    }
    qsort(distance, CASE_DEVICES, sizeof *distance, by_value); /* the first is its own, 0 */
    for (int e = 1; e <= CASE_DEVICES - f - 2; e++) {
        sum += distance[e];
    }
    return sum;
}

static void choose(const strategy_round *round, int f, double *change) {
    int best = 0;
    for (int d = 1; d < CASE_DEVICES; d++) {
        best = score(round, d, f) < score(round, best, f) ? d : best;
    }
    for (int i = 0; i < CASE_VALUES; i++) {
        change[i] = (double)round->x[best][i];
    }
}

static void with_none_hostile(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    choose(round, 0, change);
}

static void with_two_hostile(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    choose(round, 2, change);
}

static void it_is_the_update_with_the_nearest_neighbours(void **state) {
    (void)state;
    strategy_case_follows("krum:f=0", with_none_hostile);
    strategy_case_follows("krum:f=2", with_two_hostile);
}

static void one_hostile_device_does_not_move_it(void **state) {
    (void)state;
    assert_true(strategy_case_withstands("krum:f=1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_update_with_the_nearest_neighbours),
        cmocka_unit_test(one_hostile_device_does_not_move_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
