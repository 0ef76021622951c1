/* Terms have the noise that they promise, by whoever computes it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/privacy/promised_noise.h"

#include <stdio.h>

#include "fed_cases.h"
#include "fedserver/privacy/accountant.h"
#include "fedserver/task/private_task.h"

enum { VALUES = 5000 };

/* The terms of a task, as its coordinator has them. */
static fed_private_terms terms_of(const char *codec_up, unsigned bits, double p, float epsilon) {
    fedserver_task task = {.clip = 0.3F,
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

int main(void) {
    return fed_cases_run(NULL, NULL);
}
