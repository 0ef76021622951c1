/* The accountant against golden epsilons of dp-accounting, and against its own inverse. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fedserver/privacy/accountant.h"

/* A row of tests/vectors/privacy/gaussian.txt: the epsilons are dp-accounting's. */
typedef struct row {
    double z;
    unsigned participations, apart;
    double delta, rdp, pld;
} row;

static bool next_row(FILE *file, row *r) {
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] != '#') {
            assert_int_equal(sscanf(line, "%lf %u %u %lf %lf %lf", &r->z, &r->participations,
                                    &r->apart, &r->delta, &r->rdp, &r->pld),
                             6);
            return true;
        }
    }
    return false;
}

static double epsilon_of(const row *r) {
    return fedserver_privacy_epsilon(r->participations * fedserver_privacy_cost(r->z, r->apart),
                                     r->delta);
}

FED_TEST(epsilons_are_those_of_dp_accounting) {
    FILE *file = fopen(FED_SOURCE_DIR "/tests/vectors/privacy/gaussian.txt", "r");
    assert_non_null(file);
    row r;
    int count = 0;
    double most = 0;
    for (; next_row(file, &r); count++) {
        const double epsilon = epsilon_of(&r), off = fabs(epsilon - r.rdp);
        most = off > most ? off : most;
        if (off > 1e-4 || epsilon < r.pld) {
            fail_msg("z %g, K %u, apart %u, delta %g: %.9g; RDP %.9g, PLD %.9g", r.z,
                     r.participations, r.apart, r.delta, epsilon, r.rdp, r.pld);
        }
    }
    fclose(file);
    assert_true(count >= 200);
    print_message("%d epsilons differ by up to %.2g\n", count, most);
}

FED_TEST(the_inverse_gives_the_noise_that_a_promise_needs) {
    static const double epsilons[] = {0.01, 0.1, 1, 2, 8, 50}, deltas[] = {1e-9, 1e-5, 1e-2, 0.5};
    for (size_t k = 0; k < 6; k++) {
        for (size_t j = 0; j < 4; j++) {
            const double rho = fedserver_privacy_rho(epsilons[k], deltas[j]);
            const double epsilon = fedserver_privacy_epsilon(rho, deltas[j]);
            assert_true(rho > 0);
            if (fabs(epsilon - epsilons[k]) > 1e-9 * epsilons[k]) {
                fail_msg("epsilon %g, delta %g: %.12g", epsilons[k], deltas[j], epsilon);
            }
        }
    }
}

FED_TEST(participations_add_up_to_the_promise) {
    static const uint32_t participations[] = {1, 3, 8, 30, 1000}, aparts[] = {1, 2, 10, 64};
    for (size_t k = 0; k < 5; k++) {
        for (size_t j = 0; j < 4; j++) {
            const double z = fedserver_privacy_z(2, 1e-5, participations[k], aparts[j]);
            const double cost = fedserver_privacy_cost(z, aparts[j]);
            const double all = fedserver_privacy_epsilon(participations[k] * cost, 1e-5);
            assert_true(fabs(all - 2) < 1e-9);
            assert_true(fedserver_privacy_epsilon((participations[k] + 1) * cost, 1e-5) > 2);
        }
    }
    /* docs: 400 devices, 100 a round, 30 rounds: 8 participations of a device at epsilon 8 */
    const double z = fedserver_privacy_z(8, 1e-5, 8, 1);
    assert_true(z > 1.79 && z < 1.81);
}

FED_TEST(values_and_a_count_cost_what_values_alone_would) {
    static const double zs[] = {0.3, 1, 4.5, 9.9};
    for (size_t k = 0; k < 4; k++) {
        const double values = fedserver_privacy_values_z(zs[k], 100);
        const double count = 10; /* goal / 10: a device moves the count by 1 */
        const double cost = fedserver_privacy_cost(values, 1) + fedserver_privacy_cost(count, 1);
        assert_true(values > zs[k]);
        assert_true(fabs(cost / fedserver_privacy_cost(zs[k], 1) - 1) < 1e-12);
    }
    assert_true(fedserver_privacy_values_z(10, 100) == 0);
    assert_true(fedserver_privacy_values_z(11, 100) == 0);
}

FED_TEST(coefficients_are_those_of_the_square_root_of_the_prefix_sum) {
    double c[FEDSERVER_APART_MOST];
    assert_true(fedserver_privacy_coefficients(1, c) == 1 && c[0] == 1);
    const double length = fedserver_privacy_coefficients(4, c);
    assert_true(c[1] == 0.5 && c[2] == 0.375 && c[3] == 0.3125);
    assert_true(length == 1 + 0.25 + 0.375 * 0.375 + 0.3125 * 0.3125);
    /* the square of the series 1, 1/2, 3/8, ... is 1, 1, 1, ... */
    (void)fedserver_privacy_coefficients(FEDSERVER_APART_MOST, c);
    for (int n = 0; n < FEDSERVER_APART_MOST; n++) {
        double sum = 0;
        for (int j = 0; j <= n; j++) {
            sum += c[j] * c[n - j];
        }
        assert_true(fabs(sum - 1) < 1e-8); /* each is cut off to a multiple of 2^-32 */
    }
}

FED_TEST(no_cost_is_no_epsilon) {
    assert_true(fedserver_privacy_epsilon(0, 1e-5) == 0);
    assert_true(fedserver_privacy_epsilon(1e-300, 1e-5) >= 0);
    assert_true(fedserver_privacy_epsilon(1e-12, 0.9) == 0);
    assert_true(isfinite(fedserver_privacy_epsilon(1e9, 1e-12)));
}
