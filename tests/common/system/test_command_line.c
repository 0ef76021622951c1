/* What is wrong on a command line: the command that was meant, and options that getopt refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/command_line.h"

#include <getopt.h>
#include <string.h>

#include "fed_cases.h"

static const char *const commands[] = {"train", "evaluate", "run", NULL};

static void assert_refused(const char *word, const char *says) {
    fed_error err = {0};
    assert_fed_status(fed_command_refuse(word, commands, &err), FED_EINVAL);
    assert_string_equal(err.text, says);
}

FED_TEST(the_command_that_was_meant_is_named) {
    assert_refused("trian", "unknown command trian: did you mean train?");
    assert_refused("rain", "unknown command rain: did you mean train?");
    assert_refused("evaluates", "unknown command evaluates: did you mean evaluate?");
    assert_refused("rum", "unknown command rum: did you mean run?");
}

FED_TEST(all_commands_are_named_where_none_is_near) {
    char word[60], says[200];
    assert_refused("", "a command is missing: the commands are train, evaluate, run");
    assert_refused("ru-", "unknown command ru-: did you mean run?");
    assert_refused("r--", "unknown command r--: the commands are train, evaluate, run");
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    (void)snprintf(says, sizeof says,
                   "unknown command %.40s: the commands are train, evaluate, run", word);
    assert_refused(word, says);
}

FED_TEST(a_list_that_is_too_long_is_cut) {
    const char *names[101] = {NULL};
    fed_error err = {0};
    for (size_t k = 0; k < 100; k++) {
        names[k] = "a-longish-name";
    }
    assert_fed_status(fed_command_refuse("x", names, &err), FED_EINVAL);
    assert_fed_says(err, "a-longish-name, a-longish-name");
}

static void assert_option(const char *word, const char *says) {
    int val;
    const struct option options[] = {{"dir", required_argument, &val, -1},
                                     {"days", required_argument, &val, -2},
                                     {"json", no_argument, &val, -3},
                                     {NULL, 0, NULL, 0}};
    char program[] = "program", text[40];
    char *argv[] = {program, text, NULL};
    fed_error err = {0};
    (void)snprintf(text, sizeof text, "%s", word);
    optind = 0; /* lets glibc's getopt begin anew */
    opterr = 0;
    const int found = getopt_long(2, argv, ":", options, NULL);
    assert_fed_status(fed_option_refuse(found, argv, options, &err), FED_EINVAL);
    assert_string_equal(err.text, says);
}

FED_TEST(an_option_is_unknown_or_lacks_its_value_or_takes_none) {
    assert_option("--none", "unknown option --none");
    assert_option("--none=3", "unknown option --none");
    assert_option("--dir", "a value is missing after --dir");
    assert_option("--json=3", "--json takes no value");
    assert_option("--d", "--d is short for several options: --dir, --days");
    assert_option("--j=3", "--json takes no value");
    assert_option("--d=3", "--d is short for several options: --dir, --days");
    assert_option("-x", "unknown option -x: options begin with --");
    assert_option("-xy", "unknown option -x: options begin with --");
}

int main(void) {
    return fed_cases_run(NULL, NULL);
}
