/* Terms have the noise that they promise, by whoever computes it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/privacy/promised_noise.h"

#include <math.h>
#include <stdio.h>

#include "fed_cases.h"
#include "fedserver/privacy/accountant.h"
#include "fedserver/task/private_task.h"

enum { VALUES = 5000 };

/* The terms of a task, as its coordinator has them. quantile: clip_quantile, or 0. */
static fed_private_terms terms_with(const char *codec_up, unsigned bits, double p, float epsilon,
                                    float quantile) {
    fedserver_task task = {.clip = 0.3F,
                           .clip_quantile = quantile,
                           .epsilon = epsilon,
                           .delta = 1e-5F,
                           .participations = 30,
                           .apart = 1,
                           .rules = {.minimum = 20, .goal = 100, .cohort = 130, .rounds = 9}};
    const fed_layout layout = {.size = VALUES};
    fed_private_terms t = {.task = 3, .round = 9};
    snprintf(task.wire.codec_up, sizeof task.wire.codec_up, "%s", codec_up);
    snprintf(t.codec_up, sizeof t.codec_up, "%s", codec_up);
    t.privacy = fedserver_privacy_of(&task, &layout);
    const fed_privacy_fields shape = fed_privacy_shape(&t.privacy, bits, p, VALUES);
    t.width = shape.width;
    t.fields = shape.fields;
    t.sent = shape.sent;
    return t;
}

static fed_private_terms terms_of(const char *codec_up, unsigned bits, double p, float epsilon) {
    return terms_with(codec_up, bits, p, epsilon, 0);
}

FED_TEST(a_coordinators_terms_suffice_and_hardly_less_does_not) {
    static const struct {
        const char *codec_up;
        unsigned bits;
        double p;
        float epsilon;
    } cases[] = {{"ring:b=5,p=1", 5, 1, 8},
                 {"ring:b=2,p=0.01", 2, 0.01, 0.5F},
                 {"ring:b=9,p=0.3", 9, 0.3, 40}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        fed_error err = {0};
        fedserver_variance v = {0};
        fed_private_terms t =
            terms_of(cases[k].codec_up, cases[k].bits, cases[k].p, cases[k].epsilon);
        assert_fed_ok_err(fedserver_promised_noise(&t, &v, &err));
        assert_true((double)v.t * (double)v.u / (double)v.m >= t.privacy.sigma2 * (1 - 1e-12));
        t.privacy.sigma2 *= 1 - 1e-10; /* the last bits of another machine's logarithm */
        assert_fed_ok_err(fedserver_promised_noise(&t, &v, &err));
        t.privacy.sigma2 *= 1 - 1e-8;
        assert_fed_fails(fedserver_promised_noise(&t, &v, &err), FED_EINVAL, "asks for");
    }
}

FED_TEST(without_a_promise_there_is_no_noise) {
    fed_error err = {0};
    fedserver_variance v = {0};
    fed_private_terms t = terms_of("ring:b=5,p=1", 5, 1, 0);
    assert_fed_ok(fedserver_promised_noise(&t, &v, &err));
    assert_int_equal(v.t, 0);
    t.privacy.sigma2 = 100;
    assert_fed_fails(fedserver_promised_noise(&t, &v, &err), FED_EINVAL, "belongs to epsilon");
}

FED_TEST(terms_that_make_no_sense_are_refused) {
    for (unsigned k = 0; k < 8; k++) {
        fed_error err = {0};
        fedserver_variance v = {0};
        fed_private_terms t = terms_of("ring:b=5,p=1", 5, 1, 8);
        fed_privacy *p = &t.privacy;
        p->delta = k == 0 ? 0 : p->delta;
        p->participations = k == 1 ? 0 : p->participations;
        p->apart = k == 2 ? FEDSERVER_APART_MOST + 1 : p->apart;
        p->sigma2 = k == 3 ? 0x1p120 : k == 4 ? 0 : p->sigma2;
        p->epsilon = k == 5 ? 1e-35F : p->epsilon;
        t.width += k == 6;
        snprintf(t.codec_up, sizeof t.codec_up, "%s", k == 7 ? "int8" : "ring:b=5,p=1");
        assert_fed_status(fedserver_promised_noise(&t, &v, &err), FED_EINVAL);
        assert_true(err.text[0] != '\0');
    }
}

/* The values of a round with a count need more noise, and the count a goal above 10 z. */
FED_TEST(a_count_makes_the_values_noise_larger) {
    fed_error err = {0};
    fedserver_variance v = {0};
    fed_private_terms t = terms_with("ring:b=5,p=1", 5, 1, 8, 0.5F);
    const fed_private_terms plain = terms_of("ring:b=5,p=1", 5, 1, 8);
    assert_true(t.privacy.counted && t.privacy.sigma2 > plain.privacy.sigma2 * 1.05);
    assert_fed_ok_err(fedserver_promised_noise(&t, &v, &err));
    t.privacy.sigma2 *= 1 - 1e-8;
    assert_fed_fails(fedserver_promised_noise(&t, &v, &err), FED_EINVAL, "asks for");
    t = terms_with("ring:b=5,p=1", 5, 1, 8, 0.5F);
    t.privacy.apart = 2;
    assert_fed_fails(fedserver_promised_noise(&t, &v, &err), FED_EINVAL, "apart 1");
    t = terms_with("ring:b=5,p=1", 5, 1, 8, 0.5F);
    t.privacy.goal = 30; /* z is 3.5 */
    assert_fed_fails(fedserver_promised_noise(&t, &v, &err), FED_EINVAL, "a goal above 10 z");
}

/* It is goal / 10 wide, the same for the same key and set, and no number of the values' noise. */
FED_TEST(the_noise_of_a_count_has_its_variance) {
    enum { SETS = 4000 };
    fed_privacy told = {.goal = 300, .sigma2 = 900, .counted = true};
    const uint8_t key[FEDSERVER_NOISE_KEY] = {4, 8};
    fedserver_variance v;
    double squares = 0, along = 0;
    assert_fed_ok(fedserver_variance_of(900, &v));
    for (unsigned k = 0; k < SETS; k++) {
        const uint8_t set[FED_SHA256_SIZE] = {(uint8_t)k, (uint8_t)(k >> 8)};
        int64_t count = 0, again = 0, value = 0;
        assert_fed_ok(fedserver_count_noise(&told, key, set, &count));
        assert_fed_ok(fedserver_count_noise(&told, key, set, &again));
        assert_int_equal(count, again);
        assert_fed_ok(fedserver_noise_draw(key, set, v, &value, 1));
        squares += (double)(count * count) / SETS;
        along += (double)(count * value) / SETS;
    }
    assert_true(fabs(squares / 900 - 1) < 0.1); /* 4 standard errors; the numbers are fixed */
    assert_true(fabs(along / 900) < 0.1);
    int64_t none = 7;
    told.counted = false;
    assert_fed_ok(fedserver_count_noise(&told, key, key, &none));
    assert_int_equal(none, 7);
}

int main(void) {
    return fed_cases_run(NULL, NULL);
}
