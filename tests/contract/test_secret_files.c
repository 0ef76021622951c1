/* Each program that reads a token or a secret from a file says what is wrong with the file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_digits.h"
#include "fed_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include "fed/file.h"

/* Files without a word in them. */
static const struct {
    const char *name, *bytes;
} empty[] = {
    {"nothing", ""},
    {"a line end", "\n"},
    {"CR LF", "\r\n"},
    {"blanks", " \t \n \n"},
    {"a mark", "\xef\xbb\xbf"},
    {"a mark, blanks and CR LF", "\xef\xbb\xbf \t\r\n"},
};
enum { EMPTY = sizeof empty / sizeof empty[0] };

/* Command lines that read the file `secret`. */
static const struct {
    const char *program, *words;
} readers[] = {
    {"fedclientd", "--server https://127.0.0.1:9 --ca c/ca.pem --state state --data . "
                   "--token-file secret"},
    {"fedserver", "run --dir c --no-front --devices-port 0 --upstream https://127.0.0.1:9 "
                  "--upstream-ca c/ca.pem --upstream-token-file secret"},
    {"fedworker", "train --server https://127.0.0.1:9 --ca c/ca.pem --state group --data . "
                  "--token-file secret"},
    {"fedworker", "train --model lr --dataset mnist --data . --link tcp --workers 2 "
                  "--join 127.0.0.1:9 --secret-file secret"},
};
enum { READERS = sizeof readers / sizeof readers[0] };

static int setup(void **state) {
    static fed_program p;
    fed_program_open(&p, "fedserver");
    fed_digits_write(p.directory, 100, 20);
    assert_runs(&p, "init --dir c --host 127.0.0.1", 0, "");
    *state = &p;
    return 0;
}

/* Each program must end with 1, and say the words. */
static void assert_each_says(fed_program *p, const char *words) {
    for (size_t k = 0; k < READERS; k++) {
        p->name = readers[k].program;
        assert_runs(p, readers[k].words, 1, words);
    }
}

FED_TEST_WITH(a_file_without_a_word, fed_program *p) {
    for (size_t k = 0; k < EMPTY; k++) {
        fed_test_put(p->directory, "secret", empty[k].bytes, strlen(empty[k].bytes));
        assert_each_says(p, "the file secret is empty: write the token, or the secret, into its");
    }
}

FED_TEST_WITH(a_file_that_is_not_there, fed_program *p) {
    assert_each_says(p, "secret: No such file or directory");
}

FED_TEST_WITH(a_folder, fed_program *p) {
    char path[300];
    snprintf(path, sizeof path, "%s/secret", p->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_each_says(p, "can't read secret: ");
}

FED_TEST_WITH(a_file_of_another_user, fed_program *p) {
    char path[300];
    if (geteuid() == 0) { /* root reads all files */
        skip();
    }
    fed_test_put(p->directory, "secret", "x\n", 2);
    snprintf(path, sizeof path, "%s/secret", p->directory);
    assert_int_equal(chmod(path, 0), 0);
    assert_each_says(p, "secret: Permission denied");
}

FED_TEST_WITH(utf_16, fed_program *p) {
    fed_test_put(p->directory, "secret", "\xff\xfex\0\n\0", 6);
    assert_each_says(p, "can't read secret: it is in UTF-16; save it as UTF-8");
}

int main(void) {
    return fed_cases_run_each(setup, fed_program_teardown);
}
