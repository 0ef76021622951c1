/* fedworker predict: its command line, what it measures, and the numbers that it hands on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <getopt.h>

#include "fedclient/apps/fedworker_predict.h"

enum { WORDS = 24 };

/* Run the command with blanks between its words. out: a growing writer, which ends with a NUL. */
static fed_status predict(const char *line, fed_writer *out, fed_error *err) {
    char text[400], *argv[WORDS + 1] = {NULL}, *rest = NULL;
    int argc = 0;
    snprintf(text, sizeof text, "predict %s", line);
    for (char *word = strtok_r(text, " ", &rest); word != NULL && argc < WORDS;
         word = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = word;
    }
    optind = 1; /* getopt's, for a further command line in one process */
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

static void wrong_words_are_refused_with_what_would_be_right(void **state) {
    (void)state;
    assert_refused("--rate 1000", "predict needs --model");
    assert_refused("--model lr --workers 1", "--workers is 4 or 2..8");
    assert_refused("--model lr --workers 8..2", "--workers is 4 or 2..8");
    assert_refused("--model lr --workers 2..2000", "--workers is 4 or 2..8");
    assert_refused("--model lr --workers 2.8", "--workers is 4 or 2..8");
    assert_refused("--model lr --ratio 0", "--ratio is 96 or 96,48");
    assert_refused("--model lr --ratio 5,x", "--ratio is a number above 0");
    assert_refused("--model lr --compute-ms -4", "--compute-ms is a number above 0");
    assert_refused("--model lr --codec inceptionn --nic-gbit x", "--nic-gbit is a number above 0");
    assert_refused("--model lr --nic-gbit 4", "--nic-gbit needs --codec");
    assert_refused("--model lr --rate 0", "--rate is a whole number");
    assert_refused("--model lr --codec nosuch", "nosuch");
    assert_refused("--model lr more", "\"more\" is one word too many");
}

/* The command line is right, and its answer holds these words. */
static void assert_answers(const char *line, const char *const *words) {
    fed_error err = {0};
    fed_writer out;
    assert_fed_ok_err(predict(line, &out, &err));
    for (; *words != NULL; words++) {
        if (strstr((const char *)out.data, *words) == NULL) {
            fail_msg("wanted \"%s\" in:\n%s", *words, (const char *)out.data);
        }
    }
    fed_writer_free(&out);
}

static void what_is_given_is_not_measured(void **state) {
    (void)state;
    /* lr has 7,850 values: at 1 Mbit/s n beta is 251.2 ms, which owners of two workers take. To add
     * values is measured, and may take some tenths more on a busy machine. */
    assert_answers("--model lr --rate 1 --workers 2 --codec sbc:p=0.01 --pull int8 --ratio 10,5 "
                   "--compute-ms 40 --latency-us 0.001 --message-us 0.001",
                   (const char *[]){"32 samples 40.00 ms\n", "of 7850 values at 1 Mbit/s",
                                    "sbc:p=0.01 (10.0x pushes, 5.0x pulls)", "\n      2    753.",
                                    " 251.", " 291.", "\n      4 ", "\n   1024 ", NULL});
}

static void cards_code_and_hosts_do_not(void **state) {
    (void)state;
    /* 251.2 ms of float32 by owners of two workers: a tenth, or what a slow card takes, and no
     * time of the codec in a step (bitsgd, layered bitsgd). */
    static const char given[] = "--model lr --rate 1 --workers 2 --codec inceptionn --pull "
                                "inceptionn --ratio 10 --compute-ms 40 --latency-us 0.001 "
                                "--message-us 0.001";
    char line[300];
    snprintf(line, sizeof line, "%s --nic-gbit 1000", given);
    assert_answers(line,
                   (const char *[]){"in the network cards, 1000 Gbit/s", " 25.", " 65.", NULL});
    snprintf(line, sizeof line, "%s --nic-gbit 0.0005", given);
    assert_answers(line, (const char *[]){" 502.", " 542.", NULL});
}

static void ratios_are_measured_where_none_is_given(void **state) {
    (void)state;
    assert_answers("--model lr --batch 4 --workers 2..3 --codec int8",
                   (const char *[]){"measured on one core", "int8 (4.0x pushes, 1.0x pulls)",
                                    "\n      3 ", NULL});
}

static void a_ring_takes_no_codec_that_expands(void **state) {
    (void)state;
    assert_answers("--model lr --batch 4 --workers 2 --codec 3lc --compute-ms 1",
                   (const char *[]){"         - ", NULL});
}

static void models_of_words_and_of_numbers_are_measured_too(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_words_are_refused_with_what_would_be_right),
        cmocka_unit_test(what_is_given_is_not_measured),
        cmocka_unit_test(cards_code_and_hosts_do_not),
        cmocka_unit_test(ratios_are_measured_where_none_is_given),
        cmocka_unit_test(a_ring_takes_no_codec_that_expands),
        cmocka_unit_test(models_of_words_and_of_numbers_are_measured_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
