/* The progress line: a bar if standard error is a terminal, else nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* posix_openpt */
#include "fed_cases.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "fed/progress.h"

static void show_to(int fd) {
    int kept = dup(STDERR_FILENO);
    assert_true(kept >= 0);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    fed_progress progress;
    fed_progress_open(&progress, 0);
    fed_progress_show(&progress, 0.5, "step %d", 7);
    fed_progress_show(&progress, 0.75, "too soon after the one before");
    fed_progress_wipe(&progress);
    fed_progress_show(&progress, 1, "at once after a wipe");
    fed_progress_wipe(&progress);
    fed_progress_wipe(&progress);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
}

FED_TEST(a_file_gets_nothing) {
    FILE *file = tmpfile();
    assert_non_null(file);
    show_to(fileno(file));
    assert_int_equal(lseek(fileno(file), 0, SEEK_END), 0);
    fclose(file);
}

/* Returns a pseudo-terminal, or -1 if the system has none. *end gets its controlling side. */
static int open_terminal(int *end) {
    *end = posix_openpt(O_RDWR | O_NOCTTY);
    if (*end < 0 || grantpt(*end) != 0 || unlockpt(*end) != 0) {
        return -1;
    }
    return open(ptsname(*end), O_RDWR | O_NOCTTY);
}

/* Read the output until the text `last`, or until nothing has come for two seconds. */
static size_t read_all(int end, char *seen, size_t cap) {
    static const char last[] = "a wipe, 0 s left\r\033[K";
    struct pollfd ready = {.fd = end, .events = POLLIN};
    size_t len = 0;
    while (strstr(seen, last) == NULL && poll(&ready, 1, 2000) == 1) {
        ssize_t got = read(end, seen + len, cap - 1 - len);
        assert_true(got > 0);
        len += (size_t)got;
        seen[len] = '\0';
    }
    return len;
}

FED_TEST(a_terminal_gets_a_bar_that_is_rewritten) {
    int end;
    int terminal = open_terminal(&end);
    if (terminal < 0) {
        skip();
    }
    show_to(terminal);
    char seen[400] = "";
    size_t len = read_all(end, seen, sizeof seen);
    assert_memory_equal(seen, "\r\033[K[##########          ] 50 %  step 7", 38);
    assert_null(strstr(seen, "too soon"));
    assert_non_null(strstr(seen, "[####################] 100 %  at once after a wipe, 0 s left"));
    assert_string_equal(seen + len - 8, "left\r\033[K");
    close(terminal);
    close(end);
}
