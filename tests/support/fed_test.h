/* For every test: cmocka with the headers that it needs, and helpers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TEST_H
#define FED_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#include "fed/error.h"

/** A test without a state. A setup of the group must leave *state alone. */
typedef void (*fed_test_body)(void);
#define fed_unit_test(body) fed_unit_test_with(body, NULL, NULL)

/** As fed_unit_test, with a setup and a teardown for this test, which must leave *state alone. */
#define fed_unit_test_with(body, setup, teardown)                                                  \
    {                                                                                              \
        .name = #body, .test_func = fed_test_call, .setup_func = (setup),                          \
        .teardown_func = (teardown), .initial_state = (fed_test_body[]) {                          \
            body                                                                                   \
        }                                                                                          \
    }

/** For the macros above. *state: a fed_test_body. */
void fed_test_call(void **state);

/** Check that the call succeeds. The second macro shows the text of `err`, a fed_error in scope. */
#define assert_fed_ok(call)                                                                        \
    do {                                                                                           \
        fed_status fed_test_status_ = (call);                                                      \
        if (fed_test_status_ != FED_OK) {                                                          \
            fail_msg("%s: %s", #call, fed_status_name(fed_test_status_));                          \
        }                                                                                          \
    } while (0)

#define assert_fed_ok_err(call)                                                                    \
    do {                                                                                           \
        fed_status fed_test_status_ = (call);                                                      \
        if (fed_test_status_ != FED_OK) {                                                          \
            fail_msg("%s: %s (%s)", #call, fed_status_name(fed_test_status_), err.text);           \
        }                                                                                          \
    } while (0)

#define assert_fed_status(call, wanted)                                                            \
    assert_string_equal(fed_status_name(call), fed_status_name(wanted))

/** Check that the call fails with the status `wanted`, and that err's text contains `words`. */
#define assert_fed_fails(call, wanted, words)                                                      \
    do {                                                                                           \
        assert_fed_status(call, wanted);                                                           \
        assert_fed_says(err, words);                                                               \
    } while (0)

/** Should tests try less, because of sanitizers or FED_TEST_LENGTH=short in the environment? */
bool fed_test_is_short(void);

/** Choose a number or a text: `whole`, or `part` in a short run. */
#define FED_TEST_TRIES(whole, part) (fed_test_is_short() ? (part) : (whole))

/** As FED_TEST_TRIES, but a constant: `part` under sanitizers. */
#ifdef FED_SANITIZED
#define FED_TEST_SIZE(whole, part) part
#else
#define FED_TEST_SIZE(whole, part) whole
#endif

/** Make a temporary directory; remove it with all it contains. */
void fed_test_tmpdir(char *dst, size_t cap);
void fed_test_rmdir(const char *directory);

/** A setup and a teardown that make and remove the temporary directory fed_test_dir. */
extern char fed_test_dir[256];
int fed_test_dir_make(void **state);
int fed_test_dir_remove(void **state);

void fed_test_put(const char *directory, const char *name, const void *data, size_t len);

/** Run one of our programs in a directory, with arguments as a shell reads them. Returns the exit
 * status. out: the output, cut to cap - 1 bytes. */
int fed_test_run(const char *directory, const char *program, const char *args, char *out,
                 size_t cap);

/** Let the system kill this process (SIGKILL) when its parent has ended. */
void fed_test_die_with_parent(void);

/** Return the process ID of a child of `parent`; 0: it has none. */
pid_t fed_test_child(pid_t parent);

#define assert_fed_says(err, words)                                                                \
    do {                                                                                           \
        if (strstr((err).text, words) == NULL) {                                                   \
            fail_msg("\"%s\" is missing in the error: %s", words, (err).text);                     \
        }                                                                                          \
    } while (0)

#endif
