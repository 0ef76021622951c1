/* From noise to epsilon, and from epsilon to noise. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/privacy/accountant.h"

#include <assert.h>
#include <math.h>

/* More halvings than a double has bits. */
enum { HALVINGS = 200 };

/* For a given order a, the rho for which a is the best order. The derivative of the bound by a is
 * rho + ln(a delta)/(a - 1)^2. It falls as a grows, and is 0 at a = 1/delta. x: a - 1, above 0. */
static double rho_at(double x, double delta) {
    return -(log1p(x) + log(delta)) / (x * x);
}

/* The bound at order 1 + x. */
static double bound(double rho, double x, double delta) {
    return rho * (1 + x) + log(x) - log1p(x) - (log1p(x) + log(delta)) / x;
}

double fedserver_privacy_epsilon(double rho, double delta) {
    assert(rho >= 0 && delta > 0 && delta < 1);
    if (!(rho > 0)) {
        return 0;
    }
    double low = 0, high = 1 / delta - 1; /* rho_at falls from infinity to 0 */
    for (int k = 0; k < HALVINGS; k++) {
        const double x = low + (high - low) / 2;
        *(x > 0 && rho_at(x, delta) < rho ? &high : &low) = x;
    }
    return fmax(0, bound(rho, high, delta));
}

double fedserver_privacy_rho(double epsilon, double delta) {
    assert(epsilon > 0 && delta > 0 && delta < 1);
    double low = 0, high = 1 / delta - 1;
    for (int k = 0; k < HALVINGS; k++) {
        const double x = low + (high - low) / 2;
        *(x > 0 && bound(rho_at(x, delta), x, delta) <= epsilon ? &high : &low) = x;
    }
    return rho_at(high, delta);
}

double fedserver_privacy_coefficients(uint32_t apart, double c[FEDSERVER_APART_MOST]) {
    assert(apart >= 1 && apart <= FEDSERVER_APART_MOST);
    double sum = 0, exact = 1;
    for (uint32_t j = 0; j < apart; j++) {
        exact *= j == 0 ? 1 : (2.0 * j - 1) / (2.0 * j);
        c[j] = floor(exact * 0x1p32) * 0x1p-32;
        sum += c[j] * c[j];
    }
    return sum;
}

/* A sum of all rounds has b_0 + ... + b_m of a round's own noise, m rounds before the last one. b
 * is the series whose product with c is 1. */
double fedserver_privacy_share(uint32_t apart, uint32_t rounds) {
    assert(rounds >= 1);
    double c[FEDSERVER_APART_MOST], b[FEDSERVER_APART_MOST] = {0}, all = 0, squares = 0;
    (void)fedserver_privacy_coefficients(apart, c);
    for (uint32_t m = 0; m < rounds; m++) {
        double next = m == 0;
        for (uint32_t j = 1; j < apart && j <= m; j++) {
            next -= c[j] * b[(m - j) % FEDSERVER_APART_MOST];
        }
        b[m % FEDSERVER_APART_MOST] = next;
        all += next;
        squares += all * all;
    }
    return sqrt(squares / rounds);
}

double fedserver_privacy_z(double epsilon, double delta, uint32_t participations, uint32_t apart) {
    assert(participations >= 1);
    double c[FEDSERVER_APART_MOST];
    const double length = fedserver_privacy_coefficients(apart, c);
    return sqrt((double)participations * length / (2 * fedserver_privacy_rho(epsilon, delta)));
}

double fedserver_privacy_values_z(double z, uint32_t goal) {
    const double count = (double)goal / 10;
    return count > z ? 1 / sqrt(1 / (z * z) - 1 / (count * count)) : 0;
}

double fedserver_privacy_cost(double z, uint32_t apart) {
    assert(z > 0);
    double c[FEDSERVER_APART_MOST];
    return fedserver_privacy_coefficients(apart, c) / (2 * z * z);
}
