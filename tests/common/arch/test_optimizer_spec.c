/* Optimizer specs: the settings that valid ones give, and the errors of invalid ones. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/optimizer_spec.h"

static fed_optimizer parse(const char *spec) {
    fed_optimizer optimizer;
    fed_error err = {0};
    assert_fed_ok_err(fed_optimizer_parse(spec, 0.01F, &optimizer, &err));
    return optimizer;
}

FED_TEST(test_a_plain_name_takes_the_rate_beside_it) {
    static const char *const names[] = {"sgd", "momentum", "adam", "adamw"};
    for (int k = 0; k < 4; k++) {
        fed_optimizer o = parse(names[k]);
        assert_int_equal(o.rule, k);
        assert_true(o.learning_rate == (double)0.01F);
        assert_true(o.decay == (k == FED_ADAMW ? 0.01 : 0));
        assert_true(o.momentum == (k == FED_MOMENTUM ? 0.9 : 0));
        assert_true(o.beta1 == (k >= FED_ADAM ? 0.9 : 0));
        assert_true(o.beta2 == (k >= FED_ADAM ? 0.999 : 0));
        assert_true(o.epsilon == (k >= FED_ADAM ? 1e-8 : 0));
        assert_true(o.warmup_steps + o.step_every + o.cosine_steps + o.stall_window == 0);
        assert_true(o.clip_value + o.clip_norm + o.prox_mu == 0);
    }
}

FED_TEST(test_a_spec_names_every_number) {
    fed_optimizer o = parse("momentum:nesterov=1,lr=1e+0,decay=5e-4,m=0.8"
                            "+stall:window=3,patience=2,factor=0.5,gain=0.25+clip:value=4,norm=3");
    assert_true(o.rule == FED_MOMENTUM && o.nesterov == 1 && o.learning_rate == 1);
    assert_true(o.decay == 5e-4 && o.momentum == 0.8);
    assert_true(o.stall_window == 3 && o.stall_patience == 2);
    assert_true(o.stall_factor == 0.5 && o.stall_gain == 0.25);
    assert_true(o.clip_value == 4 && o.clip_norm == 3);
    o = parse("adamw:b1=0.5,b2=0.25,eps=1e-3,decay=0+warmup:steps=7"
              "+step:every=20,factor=0.3+cosine:steps=9,low=0.125+prox:mu=2");
    assert_true(o.beta1 == 0.5 && o.beta2 == 0.25 && o.epsilon == 1e-3 && o.decay == 0);
    assert_true(o.warmup_steps == 7 && o.step_every == 20 && o.step_factor == 0.3);
    assert_true(o.cosine_steps == 9 && o.cosine_low == 0.125 && o.prox_mu == 2);
    assert_false(o.mask || o.stateless);
    assert_true(parse("adam+stateless").stateless);
}

FED_TEST(test_momentum_can_be_masked) {
    static const char *const specs[] = {"momentum+mask", "adam:b1=0.5+clip:norm=1+mask",
                                        "adamw+mask+warmup:steps=5"};
    for (int k = 0; k < 3; k++) {
        assert_true(parse(specs[k]).mask);
    }
}

FED_TEST(test_wrong_words_are_named_with_what_would_be_right) {
    static const char *const wrong[][3] = {
        {"lion", "unknown optimizer \"lion\"", "sgd, momentum, adam, adamw"},
        {"", "unknown optimizer \"\"", "sgd"},
        {"sgd+mask", "mask needs momentum, adam or adamw", "sgd has no momentum"},
        {"adam+mask:x=1", "optimizer's part mask takes no parameters", "\"x\""},
        {"adam+mask+mask", "mask is given twice", ""},
        {"adam+stateless+mask", "stateless can't be combined with mask", "earlier rounds"},
        {"sgd+scaffold+stateless", "combined with mask or scaffold", ""},
        {"adam+", "unknown optimizer \"adam+\"", "adamw"},
        {"sgd:m=0.9", "optimizer sgd has no parameter \"m\"", "lr, decay"},
        {"sgd:learning_rate=0.1", "write sgd:lr=0.01",
         "the key learning_rate beside the optimizer"},
        {"adam:b1=0.5,learning_rate=1", "write adam:lr=0.01", "calls its learning rate lr"},
        {"sgd:lr=0", "lr=0 is out of range", "learning rate"},
        {"sgd:lr=-1", "lr=-1 is out of range", "learning rate"},
        {"sgd:lr=nan", "lr=\"nan\" is not a decimal number", ""},
        {"sgd:lr", "\"lr\" lacks its value", "write lr=0.01"},
        {"momentum:m=1", "m=1 is out of range", "momentum"},
        {"momentum:nesterov=0.5", "nesterov=0.5 must be a whole number", ""},
        {"adam:b1=0.5,b1=0.5", "\"b1\" is given twice", ""},
        {"adam+lr=1", "unknown optimizer's part \"lr=1\"",
         "warmup, step, cosine, stall, clip, prox, scaffold"},
        {"adam+cosine", "part cosine needs steps", "from 1 to"},
        {"adam+cosine:steps=1+cosine:steps=2", "part cosine is given twice", ""},
        {"adam+cosine:steps=16777216", "steps=16777216 is out of range", "10000000"},
        {"adam+clip", "part clip needs value or norm", ""},
        {"momentum+scaffold", "scaffold needs the rule sgd", ""},
        {"adam+prox:mu=0", "mu=0 is out of range", "proximal"},
        {"adam++clip:norm=1", "adam+", ""},
    };
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        fed_optimizer optimizer;
        fed_error err = {0};
        assert_fed_status(fed_optimizer_parse(wrong[k][0], 0.01F, &optimizer, &err), FED_EINVAL);
        if (strstr(err.text, wrong[k][1]) == NULL || strstr(err.text, wrong[k][2]) == NULL) {
            fail_msg("%s: %s", wrong[k][0], err.text);
        }
    }
}

FED_TEST(test_a_rate_beside_the_spec_is_checked_where_it_counts) {
    static const float bad[] = {0, -1, NAN, INFINITY};
    fed_optimizer optimizer;
    for (size_t k = 0; k < 4; k++) {
        fed_error err = {0};
        assert_fed_status(fed_optimizer_parse("sgd", bad[k], &optimizer, &err), FED_EINVAL);
        assert_non_null(strstr(err.text, "optimizer sgd needs lr"));
        assert_fed_ok(fed_optimizer_parse("sgd:lr=0.5", bad[k], &optimizer, &err));
        assert_true(optimizer.learning_rate == 0.5);
    }
}

FED_TEST(test_too_long_a_spec_is_refused) {
    char spec[FED_OPTIMIZER_SPEC + 1];
    memset(spec, '0', sizeof spec);
    memcpy(spec, "sgd:lr=1.", 9);
    spec[FED_OPTIMIZER_SPEC] = '\0';
    fed_optimizer optimizer;
    fed_error err = {0};
    assert_fed_status(fed_optimizer_parse(spec, 1, &optimizer, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "127 characters"));
}
