/* The thread that tells whether the rounds' process is alive. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_cases.h"
#include "fedserver/front/liveness.h"

enum { SOON_MS = 120 * 1000 };

typedef struct world {
    char directory[256];
    fedserver_liveness *liveness;
    fedserver_life_question question;
} world;

static int setup(void **state) {
    static world w;
    fed_error err = {0};
    fed_test_tmpdir(w.directory, sizeof w.directory);
    w.question = FEDSERVER_LIFE_QUESTION;
    assert_fed_ok_err(fedserver_liveness_open(w.directory, &w.liveness, &err));
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fedserver_life_forget(&w->question);
    fedserver_liveness_close(w->liveness);
    fed_test_rmdir(w->directory);
    return 0;
}

/* Ask until there is an answer to a question that is asked at came_ms or later. */
static fedserver_life ask(world *w, int64_t came_ms) {
    fedserver_life life = FEDSERVER_LIFE_UNKNOWN;
    while (life == FEDSERVER_LIFE_UNKNOWN) {
        life = fedserver_life_ask(&w->question, w->directory, came_ms, came_ms);
        struct pollfd readable = {.fd = w->question.fd, .events = POLLIN};
        if (life == FEDSERVER_LIFE_UNKNOWN) {
            assert_int_equal(poll(&readable, 1, SOON_MS), 1);
        }
    }
    return life;
}

FED_TEST_WITH(rounds_that_were_noted_lately_are_well, world *w) {
    for (int k = 0; k < 100; k++) {
        fedserver_liveness_note(w->liveness, fed_clock_monotonic_ms());
        assert_int_equal(ask(w, k), FEDSERVER_LIFE_WELL);
    }
}

FED_TEST_WITH(rounds_that_are_busy_for_too_long_are_stuck_until_they_are_noted, world *w) {
    fedserver_liveness_note(w->liveness, fed_clock_monotonic_ms() - FEDSERVER_BUSY_MOST_MS);
    assert_int_equal(ask(w, 1), FEDSERVER_LIFE_STUCK);
    fedserver_liveness_note(w->liveness, fed_clock_monotonic_ms());
    assert_int_equal(ask(w, 2), FEDSERVER_LIFE_WELL);
}

FED_TEST_WITH(an_answer_serves_those_who_came_before_its_question, world *w) {
    assert_int_equal(ask(w, 10), FEDSERVER_LIFE_WELL);
    fedserver_liveness_close(w->liveness);
    w->liveness = NULL;
    assert_int_equal(ask(w, 10), FEDSERVER_LIFE_WELL);
    assert_int_equal(ask(w, 9), FEDSERVER_LIFE_WELL);
    assert_int_equal(ask(w, 11), FEDSERVER_LIFE_ABSENT);
}

FED_TEST_WITH(where_nobody_listens_the_rounds_are_absent, world *w) {
    fedserver_liveness_close(w->liveness);
    w->liveness = NULL;
    assert_int_equal(ask(w, 1), FEDSERVER_LIFE_ABSENT); /* the socket is left */
    fed_test_rmdir(w->directory);
    assert_int_equal(ask(w, 2), FEDSERVER_LIFE_ABSENT);
    assert_int_equal(mkdir(w->directory, 0700), 0);
    assert_int_equal(ask(w, 3), FEDSERVER_LIFE_ABSENT);
}

FED_TEST_WITH(a_later_process_takes_the_socket, world *w) {
    fed_error err = {0};
    fedserver_liveness_close(w->liveness);
    assert_fed_ok_err(fedserver_liveness_open(w->directory, &w->liveness, &err));
    assert_int_equal(ask(w, 1), FEDSERVER_LIFE_WELL);
}

/* Listen on alive.sock as a process does that is stopped, or that answers what it likes. */
static int listen_raw(const world *w, int backlog) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.90s/alive.sock", w->directory);
    (void)unlink(address.sun_path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

FED_TEST_WITH(a_process_that_does_not_answer_is_not_known_to_be_well, world *w) {
    const int listening = listen_raw(w, 0);
    fedserver_life_question others[4];
    for (int k = 0; k < 4; k++) { /* more than the socket's queue takes */
        others[k] = FEDSERVER_LIFE_QUESTION;
        assert_int_equal(fedserver_life_ask(&others[k], w->directory, 1, 1),
                         FEDSERVER_LIFE_UNKNOWN);
    }
    assert_true(others[0].fd >= 0 && others[3].fd < 0);
    for (int k = 0; k < 4; k++) {
        fedserver_life_forget(&others[k]);
    }
    close(listening);
}

FED_TEST_WITH(what_is_no_answer_means_that_nobody_serves, world *w) {
    static const char *const answers[] = {"", "x", "0"};
    const int listening = listen_raw(w, 4);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(fedserver_life_ask(&w->question, w->directory, k, k),
                         FEDSERVER_LIFE_UNKNOWN);
        const int fd = accept(listening, NULL, NULL);
        assert_int_equal(write(fd, answers[k], strlen(answers[k])), strlen(answers[k]));
        close(fd);
        assert_int_equal(ask(w, k), FEDSERVER_LIFE_ABSENT);
    }
    close(listening);
}

FED_TEST(a_directory_that_takes_no_socket_is_named) {
    char dir[256], taken[300];
    fed_error err = {0};
    fedserver_liveness *liveness = NULL;
    fed_test_tmpdir(dir, sizeof dir);
    snprintf(taken, sizeof taken, "%s/alive.sock", dir);
    assert_int_equal(mkdir(taken, 0700), 0);
    assert_fed_fails(fedserver_liveness_open(dir, &liveness, &err), FED_EIO, dir);
    fed_test_rmdir(dir);
    assert_fed_fails(fedserver_liveness_open(dir, &liveness, &err), FED_EIO, dir);
    assert_null(liveness);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
