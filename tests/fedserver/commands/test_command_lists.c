/* The commands that list and change what a coordinator holds, run as an operator runs them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <unistd.h>

#include <jansson.h>

#include "fed/file.h"

/* The directory of a coordinator that no process serves. It has a device with a counted update, an
 * unused token, a running task and two queued tasks. */
typedef struct world {
    coordinator c;
    char device[FED_SHA256_HEX];
    char out[8192];
} world;

static const char task[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                           " \"codec_down\": \"float32\", \"rounds\": 2, \"cohort\": 1}";
static const float ones[6] = {1, 1, 1, 1, 1, 1};

static int run(world *w, const char *command, const char *rest) {
    char args[800];
    snprintf(args, sizeof args, "%s --dir '%s' %s", command, w->c.directory, rest);
    return fed_test_run("/", "fedserver", args, w->out, sizeof w->out);
}

static void says(world *w, const char *command, const char *rest, const char *text) {
    if (run(w, command, rest) != 0 || strstr(w->out, text) == NULL) {
        fail_msg("fedserver %s %s must print \"%s\", but printed:\n%s", command, rest, text,
                 w->out);
    }
}

static void refuses(world *w, const char *command, const char *rest, const char *text) {
    if (run(w, command, rest) != 1 || strstr(w->out, text) == NULL) {
        fail_msg("fedserver %s %s must be refused with \"%s\", but printed:\n%s", command, rest,
                 text, w->out);
    }
}

/* Return the list that a command prints with --json. The caller frees it. */
static json_t *list(world *w, const char *command) {
    assert_int_equal(run(w, command, "--json"), 0);
    json_error_t why;
    json_t *root = json_loads(w->out, 0, &why);
    if (root == NULL) {
        fail_msg("fedserver %s --json: %s: %s", command, why.text, w->out);
    }
    return root;
}

static const char *word(const json_t *item, const char *key) {
    return json_string_value(json_object_get(item, key));
}

static int setup(void **state) {
    static world w;
    memset(&w, 0, sizeof w);
    coordinator_setup(&w.c);
    fed_error err = {0};
    char token[FEDSERVER_TOKEN];
    const fedserver_grant unused = {.ttl_s = 3600, .tag = "north", .name = "spare"};
    const fedserver_grant used = {.ttl_s = 3600, .name = "first"};
    const test_device d = coordinator_enrol_as(&w.c, &used);
    fed_hex(d.fingerprint, FED_SHA256_SIZE, w.device);
    assert_int_equal(fedserver_token_grant(w.c.server, w.c.now_ms, &unused, token, &err), FED_OK);
    for (int k = 0; k < 3; k++) {
        (void)coordinator_task(&w.c, task);
        if (k == 0) {
            coordinator_one_at_a_time(&w.c);
        }
    }
    const fed_assignment work = device_ask_work(&w.c, &d);
    assert_int_equal(device_upload(&w.c, &d, &work, ones, 1, NULL), 200);
    w.c.computes_on = "cuda:0 H100";
    (void)device_ask_work(&w.c, &d);
    coordinator_wait(&w.c, 60000);
    coordinator_wait(&w.c, 60000);
    coordinator_commit(&w.c);
    fedserver_close(w.c.server);
    w.c.server = NULL;
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    coordinator_teardown(&w->c);
    return 0;
}

static void devices_are_listed_renamed_and_shut_out(void **state) {
    world *w = *state;
    char words[200];
    says(w, "devices", "", w->device);
    assert_non_null(strstr(w->out, "counted 1 late 0 refused 0"));
    assert_non_null(strstr(w->out, "  on cuda:0 H100"));
    assert_non_null(strstr(w->out, "  first\n"));
    snprintf(words, sizeof words, "%.8s 'the second'", w->device);
    says(w, "rename", words, "  the second\n");
    refuses(w, "rename", "'' x", "8 digits");
    snprintf(words, sizeof words, "%.8s", w->device);
    says(w, "revoke", words, "revoked");
    json_t *devices = list(w, "devices");
    assert_int_equal(json_array_size(devices), 1);
    const json_t *one = json_array_get(devices, 0);
    assert_string_equal(word(one, "fingerprint"), w->device);
    assert_string_equal(word(one, "name"), "the second");
    assert_string_equal(word(one, "state"), "revoked");
    assert_string_equal(word(one, "computes_on"), "cuda:0 H100");
    assert_int_equal(json_integer_value(json_object_get(one, "counted")), 1);
    assert_true(json_integer_value(json_object_get(one, "revoked_ms")) > 0);
    json_decref(devices);
}

/* Return what a command line prints as JSON. The caller frees it. */
static json_t *print(world *w, const char *command, const char *rest, int code) {
    json_error_t why;
    assert_int_equal(run(w, command, rest), code);
    /* the output also has standard error, before or after the JSON */
    json_t *root = json_loads(w->out + strcspn(w->out, "[{"), JSON_DISABLE_EOF_CHECK, &why);
    if (root == NULL) {
        fail_msg("fedserver %s %s: %s: %s", command, rest, why.text, w->out);
    }
    return root;
}

static void the_state_of_a_coordinator_is_printed_for_programs(void **state) {
    world *w = *state;
    json_t *one = print(w, "cert", "--json", 0);
    assert_true(json_integer_value(json_object_get(one, "days_left")) > 300);
    assert_true(json_array_size(json_object_get(one, "hosts")) > 0);
    assert_true(json_is_null(json_object_get(one, "ca_change")));
    json_decref(one);
    assert_int_equal(run(w, "cert", "--json ca"), 2);
    one = print(w, "cert", "--json new-ca", 0);
    assert_true(json_is_true(json_object_get(json_object_get(one, "ca_change"), "server_is_old")));
    json_decref(one);
    one = print(w, "health", "--json", 1);
    assert_true(json_is_false(json_object_get(one, "answers")));
    assert_non_null(strstr(word(one, "reason"), "nobody serves"));
    json_decref(one);
    one = print(w, "check", "--json", 0);
    assert_string_equal(word(json_array_get(one, 0), "kind"), "checked");
    assert_non_null(strstr(word(json_array_get(one, 0), "text"), "S7: "));
    json_decref(one);
}

static void tokens_are_listed_and_withdrawn(void **state) {
    world *w = *state;
    char words[200];
    json_t *tokens = list(w, "tokens");
    assert_int_equal(json_array_size(tokens), 2);
    const char *unused = NULL;
    for (size_t k = 0; k < 2; k++) {
        const json_t *one = json_array_get(tokens, k);
        const bool is_used = strcmp(word(one, "name"), "first") == 0;
        /* The token was made in January 2026, the fixture's time. */
        assert_string_equal(word(one, "state"), is_used ? "used" : "expired");
        unused = is_used ? unused : word(one, "id");
    }
    assert_non_null(unused);
    snprintf(words, sizeof words, "--withdraw %.8s", unused);
    json_decref(tokens);
    says(w, "tokens", words, "withdrawn");
    refuses(w, "tokens", words, "withdrawn");
    refuses(w, "tokens", "--withdraw 00000000", "token");
    says(w, "tokens", "", "device north  spare\n");
}

static void tasks_are_listed_moved_paused_resumed_and_cancelled(void **state) {
    world *w = *state;
    char why[80];
    says(w, "tasks", "", "1  running");
    assert_non_null(strstr(w->out, "1 of 2 rounds"));
    assert_non_null(strstr(w->out, "2  queued (1)"));
    assert_non_null(strstr(w->out, "    waits: it needs "));
    says(w, "move", "3 1", "task 3 is moved");
    says(w, "tasks", "", "3  queued (1)");
    says(w, "pause", "1", "task 1 is paused");
    snprintf(why, sizeof why, "it was paused by uid=%lu at 20", (unsigned long)getuid());
    says(w, "tasks", "", why);
    says(w, "status", "", why);
    says(w, "cancel", "2", "task 2 is cancelled");
    says(w, "tasks", "", "2  cancelled");
    says(w, "resume", "1", "task 1 is resumed");
    says(w, "tasks", "", "1  queued (1)");
    json_t *tasks = list(w, "tasks");
    json_decref(tasks);
    refuses(w, "cancel", "9", "task");
    refuses(w, "pause", "one", "is not a task's number; `fedserver tasks` lists them");
    refuses(w, "move", "3 0", "the first is 1");
    refuses(w, "move", "2 1", "task 2");
}

static void a_chosen_codec_is_told_with_what_was_asked(void **state) {
    world *w = *state;
    static const char asks[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"auto:bytes=60\","
                               " \"rounds\": 2, \"cohort\": 1, \"phases\": [{\"round\": 2,"
                               " \"codec_up\": \"int8\"}]}";
    char path[300], chosen[200];
    snprintf(path, sizeof path, "%s/asks.json", w->c.directory);
    fed_error err = {0};
    assert_fed_ok_err(fed_file_replace(path, asks, sizeof asks - 1, 0600, &err));
    says(w, "task", path, "    updates: eden:bits=4,seed=1, ");
    assert_non_null(strstr(w->out, ", chosen for auto:bytes=60\n"));
    json_t *tasks = list(w, "tasks");
    const size_t last = json_array_size(tasks) - 1;
    const json_t *one = json_array_get(tasks, last), *other = json_array_get(tasks, 0);
    assert_string_equal(word(one, "codec_up_asked"), "auto:bytes=60");
    snprintf(chosen, sizeof chosen, "    updates: %s, chosen for auto:bytes=60\n",
             word(one, "codec_up"));
    assert_string_equal(word(other, "codec_up"), "float32");
    assert_string_equal(word(other, "codec_up_asked"), "");
    json_decref(tasks);
    says(w, "tasks", "", chosen);
    assert_null(strstr(w->out, "updates: float32"));
}

static void the_audit_log_says_who_did_what(void **state) {
    world *w = *state;
    char words[200];
    snprintf(words, sizeof words, "%.8s", w->device);
    (void)setenv("SUDO_UID", "1234", 1);
    says(w, "revoke", words, "revoked");
    (void)unsetenv("SUDO_UID");
    says(w, "audit", "", "2026-01-01T00:00:00Z enrolled ");
    assert_non_null(strstr(w->out, " revoked "));
    snprintf(words, sizeof words, " uid=%lu sudo_uid=1234\n", (unsigned long)getuid());
    assert_non_null(strstr(w->out, words));
    says(w, "audit", "--since 2026-01-02", " revoked ");
    assert_null(strstr(w->out, "enrolled"));
    says(w, "audit", "--since 2026-01-01T00:00:00Z", " enrolled ");
    static const char *const wrong[] = {"2026-13-01", "2026-01-01T", "yesterday", "2026-01-32"};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        snprintf(words, sizeof words, "--since %s", wrong[k]);
        refuses(w, "audit", words, "--since takes a day, 2026-01-31, or a time");
    }
    json_t *lines = list(w, "audit");
    assert_true(json_array_size(lines) >= 3);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(lines, 0), "at_ms")),
                     INT64_C(1767225600000));
    json_decref(lines);
}

static void the_directory_is_copied_checked_and_restored(void **state) {
    world *w = *state;
    char words[700], restored[300], original[256];
    if (coordinator_store(&w->c)->copy == NULL) {
        skip();
    }
    snprintf(words, sizeof words, "%s/copy", w->c.directory);
    says(w, "backup", words, "is a backup of");
    snprintf(words, sizeof words, "--json %s/another", w->c.directory);
    json_t *one = print(w, "backup", words, 0);
    assert_string_equal(word(one, "backup"), words + strlen("--json "));
    assert_true(json_is_null(json_object_get(one, "left_out")));
    json_decref(one);
    says(w, "check", "", ": 0 rules broken");
    memcpy(original, w->c.directory, sizeof original);
    snprintf(restored, sizeof restored, "%s/restored", original);
    memcpy(w->c.directory, restored, sizeof w->c.directory);
    snprintf(words, sizeof words, "%s/copy", original);
    says(w, "restore", words, "is restored from");
    says(w, "status", "", "task 1");
    says(w, "check", "", ": 0 rules broken");
    refuses(w, "restore", words, "already");
    memcpy(w->c.directory, original, sizeof original);
}

int main(void) {
    if (access(FED_BIN_DIR "/fedserver", X_OK) != 0) {
        return 77;
    }
#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_WORLD(devices_are_listed_renamed_and_shut_out),
        WITH_WORLD(the_state_of_a_coordinator_is_printed_for_programs),
        WITH_WORLD(tokens_are_listed_and_withdrawn),
        WITH_WORLD(tasks_are_listed_moved_paused_resumed_and_cancelled),
        WITH_WORLD(a_chosen_codec_is_told_with_what_was_asked),
        WITH_WORLD(the_audit_log_says_who_did_what),
        WITH_WORLD(the_directory_is_copied_checked_and_restored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
