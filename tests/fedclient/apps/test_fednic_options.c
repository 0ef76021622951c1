/* The command line of fednic: accepted options, refused ones, and the errors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>

#include "fed_cases.h"
#include "fedclient/apps/fednic_options.h"

enum { WORDS = 12 };

static fed_status read_line(const char *line, fednic_words *words, fed_error *err) {
    static char text[400];
    char *argv[WORDS] = {(char *)"fednic"};
    int argc = 1;
    *err = (fed_error){0};
    (void)snprintf(text, sizeof text, "%s", line);
    char *rest = text;
    for (char *word = NULL; argc < WORDS - 1 && (word = strtok_r(rest, " ", &rest)) != NULL;) {
        argv[argc++] = word;
    }
    optind = 0; /* lets glibc's getopt begin anew */
    return fednic_words_read(argc, argv, words, err);
}

FED_TEST(a_nic) {
    fednic_words w;
    fed_error err;
    assert_fed_ok_err(read_line("--tun nic3 --wire eth1 --bound 2^-7 --bypass", &w, &err));
    assert_string_equal(w.nic.tun, "nic3");
    assert_string_equal(w.nic.wire, "eth1");
    assert_string_equal(w.nic.control, "/run/fednic-nic3.sock");
    assert_int_equal(w.nic.e, 7);
    assert_true(w.nic.bypass);
    assert_false(w.stats);
}

FED_TEST(what_is_not_given) {
    fednic_words w;
    fed_error err;
    assert_fed_ok_err(read_line("--wire eth0", &w, &err));
    assert_string_equal(w.nic.tun, "nic0");
    assert_int_equal(w.nic.e, 10);
    assert_false(w.nic.bypass);
    assert_fed_ok_err(read_line("--wire eth0 --control /tmp/x", &w, &err));
    assert_string_equal(w.nic.control, "/tmp/x");
    assert_fed_ok_err(read_line("--stats --prometheus", &w, &err));
    assert_true(w.stats && w.prometheus);
    assert_string_equal(w.nic.control, "/run/fednic-nic0.sock");
}

FED_TEST(bounds) {
    static const char *const wrong[] = {"2^-0",  "2^-16", "2^10", "2^-",    "0.001", "10",
                                        "3^-10", "2^-7x", "-",    "2^--10", "2^-+1"};
    fednic_words w;
    fed_error err;
    char line[100];
    for (int e = 1; e <= 15; e++) {
        (void)snprintf(line, sizeof line, "--wire eth0 --bound 2^-%d", e);
        assert_fed_ok_err(read_line(line, &w, &err));
        assert_int_equal(w.nic.e, e);
    }
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        (void)snprintf(line, sizeof line, "--wire eth0 --bound %s", wrong[k]);
        assert_fed_status(read_line(line, &w, &err), FED_EINVAL);
        assert_fed_says(err, "--bound is a power of two from 2^-1 to 2^-15");
    }
}

FED_TEST(what_is_wrong) {
    static const struct {
        const char *line, *says;
    } wrong[] = {{"", "--wire is missing"},
                 {"--prometheus --wire eth0", "give both"},
                 {"--wire", "a value is missing after --wire"},
                 {"--wire eth0 --speed 3", "unknown option --speed"},
                 {"--wire eth0 more", "\"more\" is not expected here"}};
    fednic_words w;
    fed_error err;
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        assert_fed_status(read_line(wrong[k].line, &w, &err), FED_EINVAL);
        assert_fed_says(err, wrong[k].says);
    }
}
