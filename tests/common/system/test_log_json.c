/* Log lines as JSON objects: their keys, and texts that no line may break. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/log.h"
#include "fed/utf8.h"

enum { MOST = 4096 }; /* a write of so many bytes to a pipe does not mix with others */

/* Call fed_log_json with a file as stderr, and return what it wrote. */
static const char *written(const char *part, const fed_log_about *about, const char *text) {
    static char line[3 * MOST];
    FILE *file = tmpfile();
    assert_non_null(file);
    const int kept = dup(STDERR_FILENO);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    fed_log_json((void *)(uintptr_t)part, FED_LOG_WARN, about, text);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    const size_t len = fread(line, 1, sizeof line - 1, file);
    line[len] = '\0';
    fclose(file);
    assert_in_range(len, 1, MOST);
    assert_ptr_equal(strchr(line, '\n'), line + len - 1);
    return line;
}

static json_t *parsed(const char *line) {
    json_error_t why;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(object)) {
        fail_msg("no JSON object (%s): %s", why.text, line);
    }
    return object;
}

static void assert_text(const json_t *object, const char *key, const char *wanted) {
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    assert_string_equal(text, wanted);
}

FED_TEST(a_line_about_a_task_has_the_task_as_keys) {
    const fed_log_about about = {.task = UINT64_C(9007199254740993), .task_name = "a", .round = 3};
    json_t *object = parsed(written("rounds", &about, "task 5 (a): round 3: closes"));
    assert_text(object, "level", "WARN");
    assert_text(object, "part", "rounds");
    assert_text(object, "task_name", "a");
    assert_text(object, "message", "task 5 (a): round 3: closes");
    assert_int_equal(json_integer_value(json_object_get(object, "task")), about.task);
    assert_int_equal(json_integer_value(json_object_get(object, "round")), 3);
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, ms = 0, end = 0;
    const char *time = json_string_value(json_object_get(object, "time"));
    assert_int_equal(sscanf(time, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &year, &month, &day, &hour,
                            &minute, &second, &ms, &end),
                     7);
    assert_int_equal(end, strlen("2026-01-31T12:00:00.000Z"));
    json_decref(object);
}

FED_TEST(what_is_unknown_has_no_key) {
    json_t *object = parsed(written(NULL, &(fed_log_about){.task_name = ""}, "all is well"));
    assert_int_equal(json_object_size(object), 3); /* time, level, message */
    json_decref(object);
}

FED_TEST(no_text_breaks_a_line) {
    static const struct {
        const char *text, *read;
    } texts[] = {
        {"say \"no\" to C:\\x", "say \"no\" to C:\\x"},
        {"a\nb\tc\x1b[31m\x7f", "a\nb\tc\x1b[31m\x7f"},
        {"na\xc3\xafve \xe2\x82\xac \xf0\x9f\x99\x82",
         "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x99\x82"},
        {"\xff", "\xef\xbf\xbd"},
        {"cut \xe2\x82", "cut \xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* NUL in two bytes */
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
        {"\xe2\x80\xa8", "\xe2\x80\xa8"},                         /* a line separator */
        {"", ""},
    };
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        const fed_log_about about = {.task = 1, .task_name = texts[k].text};
        json_t *object = parsed(written(NULL, &about, texts[k].text));
        assert_text(object, "message", texts[k].read);
        json_decref(object);
    }
}

FED_TEST(each_byte_beside_each_other_is_a_valid_line) {
    for (unsigned first = 1; first < 256; first++) {
        char text[3 * 255 + 1];
        size_t len = 0;
        for (unsigned second = 1; second < 256; second++) {
            text[len++] = (char)first;
            text[len++] = (char)second;
        }
        text[len] = '\0';
        json_decref(parsed(written(NULL, &(fed_log_about){0}, text)));
    }
}

FED_TEST(too_long_texts_are_cut_and_the_line_stays_valid) {
    static const char *const units[] = {"x", "\"", "\x01", "\xff", "\xe2\x82\xac"};
    for (size_t k = 0; k < sizeof units / sizeof units[0]; k++) {
        char text[3 * MOST] = "";
        for (size_t len = 0; len + strlen(units[k]) < sizeof text; len += strlen(units[k])) {
            memcpy(text + len, units[k], strlen(units[k]));
        }
        const fed_log_about about = {
            .task = UINT64_MAX / 2, .task_name = text, .round = UINT32_MAX};
        json_t *object = parsed(written(text, &about, text));
        assert_int_equal(json_object_size(object), 7);
        assert_true(json_string_length(json_object_get(object, "message")) > 100);
        json_decref(object);
    }
}

FED_TEST(in_the_journal_an_object_has_a_priority) {
    char stream[64];
    struct stat st;
    FILE *file = tmpfile();
    const int kept = dup(STDERR_FILENO);
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    dup2(fileno(file), STDERR_FILENO);
    fed_log_json(NULL, FED_LOG_ERROR, &(fed_log_about){0}, "all is lost");
    dup2(kept, STDERR_FILENO);
    close(kept);
    unsetenv("JOURNAL_STREAM");
    rewind(file);
    char line[300] = "";
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_int_equal(strncmp(line, "<3>{", 4), 0);
    json_decref(parsed(line + 3));
}

FED_TEST(the_word_of_the_option_chooses_the_form) {
    fed_log log = {.level = FED_LOG_WARN};
    fed_error err = {0};
    assert_fed_ok_err(fed_log_choose("json", "front", &log, &err));
    assert_ptr_equal(log.write_about, fed_log_json);
    assert_string_equal((const char *)log.user, "front");
    assert_fed_ok_err(fed_log_choose("text", NULL, &log, &err));
    assert_null(log.write_about);
    assert_ptr_equal(log.write, fed_log_stderr);
    assert_int_equal(log.level, FED_LOG_WARN);
    assert_int_equal(fed_log_choose("JSON", NULL, &log, &err), FED_EINVAL);
    assert_string_equal(err.text, "--log is text or json, not JSON");
}
