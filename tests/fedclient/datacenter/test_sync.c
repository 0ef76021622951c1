/* Rules of synchronization: their specs, and which exchange each rule wants at a step. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "feddc/sync.h"

static feddc_act act_at(const char *spec, uint32_t t) {
    feddc_sync sync;
    fed_error err = {0};
    assert_int_equal(feddc_sync_parse(spec, &sync, &err), FED_OK);
    return feddc_sync_act(&sync, t);
}

/* Check a rule step by step. '.': no exchange; 'f': exchange in float32; 'c': exchange by the
 * codec. 'F', 'C': the same, but the step computes with local weights. */
static void check(const char *spec, const char *wanted) {
    char got[32] = {0};
    for (uint32_t t = 0; wanted[t] != '\0'; t++) {
        const feddc_act act = act_at(spec, t);
        const char *kind = act.local ? ".FC" : ".fc";
        got[t] = kind[!act.exchange ? 0 : act.plain ? 1 : 2];
    }
    assert_string_equal(got, wanted);
}

FED_TEST(each_rule_exchanges_at_its_steps) {
    check("ssgd", "ffffff");
    check("bitsgd", "cccccc");
    check("local", ".c.c.c");
    check("local:n=3", "..c..c..c");
    check("local:n=1", "cccc");
    check("odsgd", "FFFF");
}

/* The first step after the warm-up is in float32: `count` begins at 0 in CD-SGD's Algorithm 1. */
FED_TEST(cdsgd_warms_up_and_corrects_each_k_th_step) {
    check("cdsgd:n=3,k=2", "fffFCFCFC");
    check("cdsgd:n=3,k=4", "fffFCCCFCCC");
    check("cdsgd", "fffffFCFC");
    check("cdsgd:n=0,k=3", "FCCFCC");
    check("cdsgd:n=2,k=1", "ffFFFF");
    check("cdsgd:n=2,k=0", "ffCCCC");
}

FED_TEST(a_delayed_rule_waits_for_the_sum_before) {
    static const uint32_t wanted[] = {0, 0, 1, 1, 1};
    for (uint32_t t = 0; t < 5; t++) {
        assert_int_equal(act_at("cdsgd:n=3,k=2", t).behind, wanted[t]);
        assert_int_equal(act_at("cdsgd:n=0,k=2", t).behind, 1);
        assert_int_equal(act_at("odsgd", t).behind, 1);
        assert_int_equal(act_at("ssgd", t).behind, 0);
        assert_int_equal(act_at("bitsgd", t).behind, 0);
        assert_int_equal(act_at("local:n=2", t).behind, 0);
    }
}

FED_TEST(a_wrong_spec_is_refused_with_its_word) {
    static const char *const specs[][2] = {{"easgd", "\"easgd\""}, {"", "\"\""},
                                           {"cdsgd:x=1", "\"x\""}, {"cdsgd:k=1.5", "k"},
                                           {"local:n=0", "n"},     {"ssgd:n=2", "n"}};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        feddc_sync sync;
        fed_error err = {0};
        assert_int_equal(feddc_sync_parse(specs[i][0], &sync, &err), FED_EINVAL);
        assert_non_null(strstr(err.text, specs[i][1]));
    }
    feddc_sync sync;
    fed_error err = {0};
    assert_int_equal(feddc_sync_parse("easgd", &sync, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "cdsgd"));
}

FED_TEST(a_rule_of_float32_refuses_a_codec) {
    static const char *const rules[][2] = {{"ssgd", "bitsgd"}, {"odsgd", "cdsgd"}};
    feddc_sync sync;
    for (size_t i = 0; i < 2; i++) {
        fed_error err = {0};
        assert_int_equal(feddc_sync_parse(rules[i][0], &sync, &err), FED_OK);
        assert_int_equal(feddc_sync_takes(&sync, NULL, &err), FED_OK);
        assert_int_equal(feddc_sync_takes(&sync, "float32", &err), FED_OK);
        assert_int_equal(feddc_sync_takes(&sync, "3lc", &err), FED_EINVAL);
        assert_int_equal(feddc_sync_takes(&sync, "inline:e=8", &err), FED_EINVAL);
        assert_non_null(strstr(err.text, rules[i][1]));
    }
    static const char *const coded[] = {"bitsgd", "local", "cdsgd"};
    for (size_t i = 0; i < 3; i++) {
        fed_error err = {0};
        assert_int_equal(feddc_sync_parse(coded[i], &sync, &err), FED_OK);
        assert_int_equal(feddc_sync_takes(&sync, "3lc", &err), FED_OK);
    }
}

FED_TEST(each_name_is_a_spec) {
    size_t k = 0;
    for (; feddc_sync_name(k) != NULL; k++) {
        (void)act_at(feddc_sync_name(k), 0);
        assert_non_null(feddc_sync_about(k));
    }
    assert_int_equal(k, 5);
    assert_null(feddc_sync_about(k));
}
