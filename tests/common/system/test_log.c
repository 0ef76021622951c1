/* Log lines: what the program's callback gets, and what fed_log_stderr writes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <sys/stat.h>
#include <unistd.h>

#include "fed/log.h"

typedef struct capture {
    int lines;
    fed_log_level level;
    char line[2000];
} capture;

static void capture_line(void *user, fed_log_level level, const char *line) {
    capture *c = user;
    c->lines++;
    c->level = level;
    snprintf(c->line, sizeof c->line, "%s", line);
}

FED_TEST(test_a_line_reaches_the_sink_formatted) {
    capture c = {0};
    fed_log log = {.write = capture_line, .user = &c, .level = FED_LOG_INFO};
    fed_logf(&log, FED_LOG_WARN, "round %d of %s", 3, "lr");
    assert_int_equal(c.lines, 1);
    assert_int_equal(c.level, FED_LOG_WARN);
    assert_string_equal(c.line, "round 3 of lr");
}

FED_TEST(test_lines_below_the_level_are_dropped) {
    capture c = {0};
    fed_log log = {.write = capture_line, .user = &c, .level = FED_LOG_WARN};
    fed_logf(&log, FED_LOG_INFO, "quiet");
    assert_int_equal(c.lines, 0);
    fed_logf(&log, FED_LOG_WARN, "loud");
    assert_int_equal(c.lines, 1);
}

static void capture_about(void *user, fed_log_level level, const fed_log_about *about,
                          const char *line) {
    char text[1200];
    snprintf(text, sizeof text, "%llu %s %u %s", (unsigned long long)about->task,
             about->task_name != NULL ? about->task_name : "-", about->round, line);
    capture_line(user, level, text);
}

FED_TEST(test_a_log_may_ask_what_a_line_is_about) {
    capture c = {0};
    fed_log log = {.write = capture_line, .write_about = capture_about, .user = &c};
    const fed_log_about about = {.task = 5, .task_name = "lr", .round = 2};
    fed_logf_about(&log, FED_LOG_INFO, &about, "closes with %d", 3);
    assert_string_equal(c.line, "5 lr 2 closes with 3");
    fed_logf(&log, FED_LOG_INFO, "all is well");
    assert_string_equal(c.line, "0 - 0 all is well");
    log.write_about = NULL;
    fed_logf_about(&log, FED_LOG_INFO, &about, "closes with %d", 3);
    assert_string_equal(c.line, "closes with 3");
    assert_int_equal(c.lines, 3);
}

FED_TEST(test_no_log_is_silence) {
    fed_log log = {0};
    fed_logf(NULL, FED_LOG_ERROR, "nobody");
    fed_logf(&log, FED_LOG_ERROR, "nobody");
}

FED_TEST(test_controls_cannot_forge_a_second_line) {
    capture c = {0};
    fed_log log = {.write = capture_line, .user = &c, .level = FED_LOG_DEBUG};
    fed_logf(&log, FED_LOG_INFO, "name %s", "x\nERROR y\r\x1b[31m\x7f");
    assert_string_equal(c.line, "name x ERROR y  [31m ");
}

FED_TEST(test_too_long_a_line_is_cut) {
    capture c = {0};
    fed_log log = {.write = capture_line, .user = &c, .level = FED_LOG_DEBUG};
    fed_logf(&log, FED_LOG_INFO, "%1500d", 1);
    assert_in_range(strlen(c.line), 500, 1499);
}

/* fed_log_stderr writes to standard error. The test replaces it by a file, to read the lines
 * back. */
FED_TEST(test_the_stderr_sink_writes_time_level_and_text) {
    FILE *file = tmpfile();
    assert_non_null(file);
    int kept = dup(STDERR_FILENO);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    fed_log log = {.write = fed_log_stderr, .user = NULL, .level = FED_LOG_INFO};
    fed_logf(&log, FED_LOG_WARN, "disk %d%% full", 97);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
    char rest[100] = "";
    assert_int_equal(fscanf(file, "%4d-%2d-%2dT%2d:%2d:%2dZ %99[^\n]", &year, &month, &day, &hour,
                            &minute, &second, rest),
                     7);
    fclose(file);
    assert_in_range(year, 2024, 2100);
    assert_string_equal(rest, "WARN disk 97% full");
}

/* systemd's journal adds the time itself, and takes the level from a number such as <6>. */
FED_TEST(test_in_the_journal_a_line_has_a_priority_and_no_time) {
    FILE *file = tmpfile();
    struct stat st;
    char stream[64], lines[200] = "";
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
    int kept = dup(STDERR_FILENO);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    fed_log log = {.write = fed_log_stderr, .user = NULL, .level = FED_LOG_INFO};
    fed_logf(&log, FED_LOG_INFO, "all is well");
    fed_logf(&log, FED_LOG_ERROR, "all is lost");
    setenv("JOURNAL_STREAM", "1:1", 1); /* another program's stream to the journal */
    fed_logf(&log, FED_LOG_WARN, "who knows");
    unsetenv("JOURNAL_STREAM");
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    assert_true(fread(lines, 1, sizeof lines - 1, file) > 0);
    fclose(file);
    assert_int_equal(strncmp(lines, "<6>all is well\n<3>all is lost\n20", 32), 0);
    assert_non_null(strstr(lines, "WARN who knows\n"));
}
