/* What only the POSIX platform does. For the rest see tests/contract/test_platforms.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed_cases.h"
#include "fedclient/platform.h"

typedef struct world {
    char directory[256], state[300];
    fedclient_platform platform;
    fed_error err;
} world;

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    snprintf(w->state, sizeof w->state, "%s/some/where", w->directory);
    assert_fed_ok(fedclient_platform_posix_open(w->state, &w->platform, &w->err));
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fedclient_platform_posix_close(&w->platform);
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

static void reopen(world *w) {
    fedclient_platform_posix_close(&w->platform);
    assert_fed_ok(fedclient_platform_posix_open(w->state, &w->platform, &w->err));
}

static void put(world *w, const char *key, const char *text) {
    assert_fed_ok(w->platform.put(w->platform.user, key, text, strlen(text), &w->err));
}

static void assert_value(world *w, const char *key, const char *text) {
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_ok(w->platform.get(w->platform.user, key, &data, &len, &w->err));
    assert_int_equal(len, strlen(text));
    assert_memory_equal(data, text, len);
    free(data);
}

FED_TEST_WITH(reading_a_small_value_takes_little_memory, world *w) {
    uint8_t *data = NULL;
    size_t len = 0;
    put(w, "identity", "a few bytes");
    assert_fed_ok(w->platform.get(w->platform.user, "identity", &data, &len, &w->err));
    assert_true(malloc_usable_size(data) < 1024);
    free(data);
}

FED_TEST_WITH(only_the_owner_reads_it, world *w) {
    char path[400];
    struct stat info;
    put(w, "identity", "secret");
    assert_int_equal(stat(w->state, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    snprintf(path, sizeof path, "%s/identity", w->state);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

FED_TEST_WITH(what_a_killed_put_left_behind_is_gone_after_the_next_start, world *w) {
    char path[400];
    put(w, "residual", "kept");
    fed_test_put(w->state, "residual.new-a1B2c3", "half", 4);
    reopen(w);
    snprintf(path, sizeof path, "%s/residual.new-a1B2c3", w->state);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_value(w, "residual", "kept");
}

FED_TEST_WITH(names_cannot_leave_the_directory, world *w) {
    static const char *const bad[] = {"", ".", "..", ".lock", "../x", "a/b"};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        assert_fed_status(w->platform.put(w->platform.user, bad[k], "x", 1, &w->err), FED_EINVAL);
    }
}

/** Fork a child that has all descriptors of this process, and does nothing. */
static pid_t fork_idle_child(void) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (;;) {
            pause();
        }
    }
    return child;
}

static void end_child(pid_t child) {
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

FED_TEST_WITH(a_closed_directory_is_free_while_a_forked_child_lives, world *w) {
    const pid_t child = fork_idle_child();
    fedclient_platform_posix_close(&w->platform);
    const fed_status status = fedclient_platform_posix_open(w->state, &w->platform, &w->err);
    end_child(child);
    assert_fed_ok(status);
}

FED_TEST_WITH(a_child_that_closes_it_leaves_it_locked, world *w) {
    fedclient_platform second = {0};
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fedclient_platform_posix_close(&w->platform);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_fed_status(fedclient_platform_posix_open(w->state, &second, &w->err), FED_EBUSY);
}

FED_TEST_WITH(a_directory_that_cannot_be_made_is_named, world *w) {
    char path[400];
    fedclient_platform platform = {0};
    put(w, "file", "x");
    snprintf(path, sizeof path, "%s/file/state", w->state);
    assert_true(fedclient_platform_posix_open(path, &platform, &w->err) != FED_OK);
    assert_non_null(strstr(w->err.text, "/file"));
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
