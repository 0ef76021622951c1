/* `fedworker predict`: its command line, what it measures, and what it gives the cost model. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <getopt.h>

#include "fedclient/apps/fedworker_commands.h"

enum { WORDS = 24 };

static fed_status predict(const char *line, fed_writer *out, fed_error *err) {
    char text[400], *argv[WORDS + 1] = {NULL}, *rest = NULL;
    int argc = 0;
    snprintf(text, sizeof text, "predict %s", line);
    for (char *word = strtok_r(text, " ", &rest); word != NULL && argc < WORDS;
         word = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = word;
    }
    optind = 1; /* lets getopt parse another command line in this process */
    fed_writer_growing(out);
    fed_status status = fedworker_predict(argc, argv, out, err);
    fed_write_u8(out, 0);
    return status;
}

static void assert_refused(const char *line, const char *words) {
    fed_error err = {0};
    fed_writer out;
    assert_fed_status(predict(line, &out, &err), FED_EINVAL);
    assert_fed_says(err, words);
    fed_writer_free(&out);
}

FED_TEST(wrong_words_are_refused_with_what_would_be_right) {
    assert_refused("--rate 1000", "predict needs --model");
    assert_refused("--model lr --workers 1", "--workers is a number, such as 4");
    assert_refused("--model lr --workers 8..2", "--workers is a number, such as 4");
    assert_refused("--model lr --workers 2..2000", "--workers is a number, such as 4");
    assert_refused("--model lr --workers 2.8", "--workers is a number, such as 4");
    assert_refused("--model lr --ratio 0", "--ratio is one number, such as 96");
    assert_refused("--model lr --ratio 5,x", "--ratio is a number above 0");
    assert_refused("--model lr --compute-ms -4", "--compute-ms is a number above 0");
    assert_refused("--model lr --codec inceptionn --nic-gbit x", "--nic-gbit is a number above 0");
    assert_refused("--model lr --nic-gbit 4", "--nic-gbit needs --codec");
    assert_refused("--model lr --rate 0", "--rate is a whole number");
    assert_refused("--model lr --codec nosuch", "nosuch");
    assert_refused("--model lr more", "\"more\" is not expected here");
}

static fed_writer answer(const char *line) {
    fed_error err = {0};
    fed_writer out;
    assert_fed_ok_err(predict(line, &out, &err));
    return out;
}

static void assert_holds(const fed_writer *out, const char *const *words) {
    for (; *words != NULL; words++) {
        if (strstr((const char *)out->data, *words) == NULL) {
            fail_msg("\"%s\" is missing in the output:\n%s", *words, (const char *)out->data);
        }
    }
}

static void assert_answers(const char *line, const char *const *words) {
    fed_writer out = answer(line);
    assert_holds(&out, words);
    fed_writer_free(&out);
}

/* Check that the output has a time from `least` ms to a tenth more. */
static void assert_holds_time(const fed_writer *out, double least) {
    for (const char *at = (const char *)out->data; (at = strchr(at, ' ')) != NULL; at++) {
        const double ms = strtod(at, NULL);
        if (ms >= least && ms <= 1.1 * least) {
            return;
        }
    }
    fail_msg("a time of %.2f ms, or a little more, is missing in:\n%s", least,
             (const char *)out->data);
}

/* The model lr has 7,850 values. At 1 Mbit/s their transfer, n beta, takes 251.2 ms. */
FED_TEST(what_is_given_is_not_measured) {
    fed_writer out =
        answer("--model lr --rate 1 --workers 2 --codec sbc:p=0.01 --pull int8 --ratio 10,5 "
               "--compute-ms 40 --latency-us 0.001 --message-us 0.001");
    assert_holds(&out, (const char *[]){"32 samples 40.00 ms\n", "of 7850 values at 1 Mbit/s",
                                        "sbc:p=0.01 (10.0x pushes, 5.0x pulls)", "\n      2 ",
                                        "\n      4 ", "\n   1024 ", NULL});
    assert_holds_time(&out, 753.6);      /* star: three times n beta */
    assert_holds_time(&out, 251.2);      /* owners: n beta for two workers */
    assert_holds_time(&out, 40 + 251.2); /* a whole step with owners */
    fed_writer_free(&out);
}

/* With NICs, owners takes a tenth of float32's time, or the time of a slow NIC. The codec takes no
 * time of the hosts. */
FED_TEST(nics_code_and_hosts_do_not) {
    static const char given[] = "--model lr --rate 1 --workers 2 --codec inceptionn --pull "
                                "inceptionn --ratio 10 --compute-ms 40 --latency-us 0.001 "
                                "--message-us 0.001";
    const struct {
        const char *gbit;
        double exchange;
    } nics[] = {{"1000", 25.12}, {"0.0005", 502.4}};
    for (size_t i = 0; i < sizeof nics / sizeof *nics; i++) {
        char line[300];
        snprintf(line, sizeof line, "%s --nic-gbit %s", given, nics[i].gbit);
        fed_writer out = answer(line);
        assert_holds_time(&out, nics[i].exchange);
        assert_holds_time(&out, 40 + nics[i].exchange);
        if (i == 0) {
            assert_holds(&out, (const char *[]){"in the NICs, 1000 Gbit/s", NULL});
        }
        fed_writer_free(&out);
    }
}

FED_TEST(ratios_are_measured_where_none_is_given) {
    assert_answers("--model lr --batch 4 --workers 2..3 --codec int8",
                   (const char *[]){"measured on one core", "int8 (4.0x pushes, 1.0x pulls)",
                                    "\n      3 ", NULL});
}

FED_TEST(a_ring_takes_no_codec_that_expands) {
    assert_answers("--model lr --batch 4 --workers 2 --codec 3lc --compute-ms 1",
                   (const char *[]){"         - ", NULL});
}

FED_TEST(models_of_words_and_of_numbers_are_measured_too) {
    char directory[256], line[320];
    static const char words[] = "input tokens 4 of 50 | embedding 8 | lstm 8 | dense 50 each";
    static const char numbers[] = "input 20 | dense 30 | relu | dense 2 | mse";
    fed_test_tmpdir(directory, sizeof directory);
    fed_test_put(directory, "words", words, sizeof words - 1);
    fed_test_put(directory, "numbers", numbers, sizeof numbers - 1);
    snprintf(line, sizeof line, "--model @%s/words --batch 2 --codec 3lc", directory);
    assert_answers(line, (const char *[]){"samples", NULL});
    snprintf(line, sizeof line, "--model @%s/numbers --batch 2 --codec 3lc", directory);
    assert_answers(line, (const char *[]){"of 692 values", NULL});
    fed_test_rmdir(directory);
}
