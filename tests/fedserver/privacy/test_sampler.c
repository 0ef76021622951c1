/* The distribution of the noise, and what its bits depend on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fedserver/privacy/sampler.h"

enum { DRAWS = FED_TEST_SIZE(1000000, 50000), BINS = 64 };

static const uint8_t key[FEDSERVER_NOISE_KEY] = "a fixed key, so the draws are so";
static const uint8_t set[FED_SHA256_SIZE] = "the digest of a set of updates";

static int64_t *draw(double sigma2, size_t count) {
    fedserver_variance variance;
    int64_t *noise = malloc(count * sizeof *noise);
    assert_non_null(noise);
    assert_fed_ok(fedserver_variance_of(sigma2, &variance));
    assert_fed_ok(fedserver_noise_draw(key, set, variance, noise, count));
    return noise;
}

static double exact(double sigma2) {
    fedserver_variance v;
    assert_fed_ok(fedserver_variance_of(sigma2, &v));
    return (double)v.t * (double)v.u / (double)v.m;
}

/* Chi-square of the draws against the definition. A bin has `width` integers, the first and the
 * last bin all beyond. */
static double chi_square(const int64_t *noise, size_t count, double sigma2) {
    const double sigma = sqrt(sigma2);
    const int64_t width = (int64_t)ceil(6 * sigma / BINS), first = -width * (BINS / 2);
    const int64_t reach = (int64_t)(12 * sigma);
    double expected[BINS] = {0}, found[BINS] = {0}, all = 0, sum = 0;
    for (int64_t x = -reach; x <= reach; x++) {
        const double p = exp(-(double)x * (double)x / (2 * sigma2));
        const int64_t bin = x < first ? 0 : (x - first) / width;
        expected[bin < BINS ? bin : BINS - 1] += p;
        all += p;
    }
    for (size_t i = 0; i < count; i++) {
        const int64_t bin = noise[i] < first ? 0 : (noise[i] - first) / width;
        found[bin < BINS ? bin : BINS - 1] += 1;
    }
    for (int k = 0; k < BINS; k++) {
        const double e = expected[k] / all * (double)count;
        sum += e > 0.1 ? (found[k] - e) * (found[k] - e) / e : 0;
        assert_true(e > 0.1 || found[k] < 3);
    }
    return sum;
}

FED_TEST(draws_are_discrete_gaussians) {
    static const double sigmas[] = {2.5, 1000, 16676};
    for (size_t k = 0; k < 3; k++) {
        const double sigma2 = sigmas[k] * sigmas[k];
        int64_t *noise = draw(sigma2, DRAWS);
        const double chi2 = chi_square(noise, DRAWS, exact(sigma2));
        free(noise);
        /* 63 degrees of freedom: above 110 with a probability of 0.0002 */
        if (!(chi2 < 110)) {
            fail_msg("sigma %g: chi-square is %g", sigmas[k], chi2);
        }
    }
}

FED_TEST(wide_noise_has_its_variance) {
    static const double sigmas[] = {0x1.8p30, 0x1.7p45, 0x1p56};
    for (size_t k = 0; k < 3; k++) {
        enum { COUNT = 20000 };
        int64_t *noise = draw(sigmas[k] * sigmas[k], COUNT);
        double squares = 0, sum = 0;
        for (size_t i = 0; i < COUNT; i++) {
            const double x = (double)noise[i] / sigmas[k];
            sum += x;
            squares += x * x;
        }
        free(noise);
        assert_true(fabs(squares / COUNT - 1) < 0.05 && fabs(sum / COUNT) < 0.03);
    }
}

FED_TEST(a_variance_is_never_below_what_is_asked) {
    double sigma2 = FEDSERVER_VARIANCE_LEAST;
    while (sigma2 <= FEDSERVER_VARIANCE_MOST) {
        fedserver_variance v;
        assert_fed_ok(fedserver_variance_of(sigma2, &v));
        const long double made = (long double)v.t * (long double)v.u / (long double)v.m;
        assert_true(made >= (long double)sigma2);
        assert_true(made / (long double)sigma2 < 1.0001L);
        sigma2 *= 1.37;
    }
    fedserver_variance v;
    assert_fed_status(fedserver_variance_of(0, &v), FED_EINVAL);
    assert_fed_status(fedserver_variance_of(0x1p113, &v), FED_EINVAL);
    assert_fed_status(fedserver_variance_of((double)NAN, &v), FED_EINVAL);
}

FED_TEST(the_same_set_has_the_same_bits_and_another_set_unrelated_ones) {
    enum { COUNT = 2000 };
    fedserver_variance v;
    int64_t one[COUNT], same[COUNT], other[COUNT], keyed[COUNT];
    uint8_t set2[FED_SHA256_SIZE], key2[FEDSERVER_NOISE_KEY];
    memcpy(set2, set, sizeof set2);
    memcpy(key2, key, sizeof key2);
    set2[31] ^= 1;
    key2[0] ^= 1;
    assert_fed_ok(fedserver_variance_of(1e6, &v));
    assert_fed_ok(fedserver_noise_draw(key, set, v, one, COUNT));
    assert_fed_ok(fedserver_noise_draw(key, set, v, same, COUNT));
    assert_fed_ok(fedserver_noise_draw(key, set2, v, other, COUNT));
    assert_fed_ok(fedserver_noise_draw(key2, set, v, keyed, COUNT));
    assert_memory_equal(one, same, sizeof one);
    double with_other = 0, with_keyed = 0;
    for (size_t i = 0; i < COUNT; i++) {
        with_other += (double)one[i] * (double)other[i] / 1e6;
        with_keyed += (double)one[i] * (double)keyed[i] / 1e6;
    }
    /* the correlation of unrelated draws is below 4 standard errors */
    assert_true(fabs(with_other) < 4 * sqrt(COUNT) && fabs(with_keyed) < 4 * sqrt(COUNT));
}

FED_TEST(golden_noise) {
    /* The bits are part of no format, but an update of the program must not change the noise of a
     * round that it finds closing. */
    fedserver_variance v;
    int64_t noise[8];
    assert_fed_ok(fedserver_variance_of(16676.0 * 16676.0, &v));
    assert_fed_ok(fedserver_noise_draw(key, set, v, noise, 8));
    static const int64_t golden[8] = {16909, 20937, 9177, -16146, 174, -10460, -8422, -14628};
    assert_memory_equal(noise, golden, sizeof golden);
}
