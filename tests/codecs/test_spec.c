/* Spec strings: which are accepted, which are refused, and the texts of the errors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <locale.h>

#include "fedcodec/codec.h"

static void assert_spec(const char *spec, const char *canonical) {
    fedcodec codec;
    fed_error err = {0};
    char text[FEDCODEC_SPEC];
    assert_fed_ok_err(fedcodec_parse(spec, &codec, &err));
    fedcodec_format(&codec, text);
    assert_string_equal(text, canonical);
}

FED_TEST(the_canonical_spec_names_each_parameter) {
    assert_spec("float32", "float32");
    assert_spec("sbc", "sbc:p=0.01");
    assert_spec("3lc", "3lc:s=1");
    assert_spec("3lc:s=1.75", "3lc:s=1.75");
    assert_spec("3lc+runs", "3lc:s=1+runs");
    assert_spec("float32+runs", "float32+runs");
    assert_spec("3lc:s=0.1e+1+runs", "3lc:s=1+runs");
}

FED_TEST(a_word_is_left_out_where_it_is_the_preset) {
    assert_spec("sbc:pos=golomb", "sbc:p=0.01");
    assert_spec("sbc:pos=auto", "sbc:p=0.01,pos=auto");
    assert_spec("sbc:pos=rice,p=0.1", "sbc:p=0.1,pos=rice");
    assert_spec("dgc", "dgc:p=0.001");
    assert_spec("stc:pos=rans", "stc:p=0.01,pos=rans");
}

/* Devices that know eden, but not p, can read the spec. */
FED_TEST(a_parameter_newer_than_its_codec_is_left_out_where_it_is_the_preset) {
    assert_spec("eden", "eden:bits=1,seed=1");
    assert_spec("eden:p=1", "eden:bits=1,seed=1");
    assert_spec("eden:p=0.008", "eden:bits=1,seed=1,p=0.008");
    assert_spec("eden:rotations=2,bits=2", "eden:bits=2,seed=1,rotations=2");
}

FED_TEST(numbers_in_any_decimal_form) {
    assert_spec("sbc:p=.25", "sbc:p=0.25");
    assert_spec("sbc:p=5e-2", "sbc:p=0.05");
    assert_spec("sbc:p=0.00000100", "sbc:p=1e-06");
    assert_spec("sbc:p=1e-06", "sbc:p=1e-06");
    assert_spec("sbc:p=0.123456789012345", "sbc:p=0.123456789012345");
    assert_spec("3lc:s=1.", "3lc:s=1");
    assert_spec("3lc:s=0.1e+1", "3lc:s=1");
}

FED_TEST(values_are_the_doubles_of_c) {
    static const char *const numbers[] = {"0.01", "0.001", "0.3", "1e-5", "0.123456789012345"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char spec[FEDCODEC_SPEC];
        fedcodec codec;
        snprintf(spec, sizeof spec, "sbc:p=%s", numbers[i]);
        assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
        assert_true(codec.param[0] == strtod(numbers[i], NULL));
    }
}

FED_TEST(the_hosts_locale_does_not_matter) {
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL) {
        skip(); /* the locale is not installed */
    }
    assert_spec("sbc:p=0.01", "sbc:p=0.01");
    setlocale(LC_NUMERIC, "C");
}

static void assert_error(const char *spec, const char *part) {
    fedcodec codec = {.param = {42.0}};
    fed_error err = {0};
    assert_fed_status(fedcodec_parse(spec, &codec, &err), FED_EINVAL);
    if (strstr(err.text, part) == NULL) {
        fail_msg("%s: \"%s\" does not say \"%s\"", spec, err.text, part);
    }
    assert_true(codec.vtable == NULL && codec.param[0] == 42.0);
    assert_fed_status(fedcodec_parse(spec, &codec, NULL), FED_EINVAL);
}

FED_TEST(errors_name_the_word_and_what_would_be_right) {
    assert_error(
        "", "unknown codec \"\"; there are float32, 3lc, sbc, float16, bfloat16, int8, stoch3");
    assert_error("SBC", "unknown codec \"SBC\"");
    assert_error("sb", "unknown codec \"sb\"");
    assert_error("sbc2:p=1", "unknown codec \"sbc2\"");
    assert_error("sbc:q=0.1", "no parameter \"q\"; it has p, pos");
    assert_error("sbc:", "no parameter \"\"; it has p, pos");
    assert_error("sbc:p=0.1,", "no parameter \"\"; it has p, pos");
    assert_error("sbc:p", "\"p\" lacks its value; write p=0.01");
    assert_error("sbc:p=0.1,p=0.2", "\"p\" is given twice");
    assert_error("float32:p=1", "float32 takes no parameters; found \"p\"");
    assert_error("float32:", "float32 takes no parameters");
    assert_error("sbc:p=0.51", "p=0.51 is out of range; p (fraction of values sent) is from 1e-06");
    assert_error("3lc:s=2", "from 1 to 1.999");
    assert_error("3lc+lz4", "unknown second stage \"lz4\"; there are runs");
    assert_error("3lc+runs:s=1", "unknown second stage \"runs:s=1\"");
    assert_error("3lc+runs+runs", "unknown second stage \"runs+runs\"");
    assert_error("3lc:s=1+", "s=\"1+\" is not a decimal number");
    assert_error("inceptionn:e=9.5", "e=9.5 must be a whole number");
    assert_error("sbc:p=-0.1", "out of range");
    assert_error("sbc:p=0", "out of range");
    assert_error("sbc:p=1234567890123456789012345678901234567890123456789012345678901234567890",
                 "at most 63 characters");
}

FED_TEST(a_wrong_word_is_refused_and_the_right_ones_named) {
    assert_error("sbc:pos=huffman",
                 "pos=\"huffman\" is not one of golomb, rice, rans, range, auto");
    assert_error("sbc:pos=", "pos=\"\" is not one of golomb, rice");
    assert_error("sbc:pos=Rice", "is not one of");
    assert_error("sbc:pos=1", "is not one of");
    assert_error("sbc:pos", "\"pos\" lacks its value; write pos=golomb");
}

FED_TEST(parameters_that_do_not_go_together_are_refused) {
    assert_error("eden:p=0.01,bits=2",
                 "codec eden: with p below 1 a value is sent as its sign: leave bits out");
    assert_error("eden:scale=tensor", "codec eden: scale=tensor needs a p below 1");
}

/* It is too long only with the numbers that the spec leaves out. */
FED_TEST(a_spec_that_is_too_long_in_full_is_refused) {
    assert_error("eden:p=0.008,scale=tensor,rotations=1,pos=golomb,bucket=512+runs",
                 "the codec spec is too long");
    assert_error("eden:p=0.008,scale=tensor,rotations=1,pos=golomb,bucket=512",
                 "with all its numbers it is eden:bits=1,bucket=512,seed=1,p=0.008,rotations=1,");
}

FED_TEST(what_is_no_number_is_refused) {
    static const char *const words[] = {"",    "x",      ".",
                                        "-",   "0.1x",   "0x1p-3",
                                        "nan", "inf",    "1e",
                                        "1e+", "1e1000", "1e-23",
                                        " 1",  "1 ",     "0.1.2",

                                        "+1",  "1e5e5",  "0.1234567890123456"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char spec[FEDCODEC_SPEC];
        snprintf(spec, sizeof spec, "sbc:p=%s", words[i]);
        assert_error(spec, "is not a decimal number of at most 15 digits");
    }
}
