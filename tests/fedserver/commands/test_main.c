/* The command line: what it prints and how it exits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fedserver/http.h"

/* Run fedserver with these words; its exit code. What it printed, on both channels, into out. */
static int run(const char *words, char out[4096]) {
    char line[1024];
    snprintf(line, sizeof line, "%s/fedserver %s 2>&1", FED_BIN_DIR, words);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t len = fread(out, 1, 4095, pipe);
    out[len] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void every_command_explains_itself(void **state) {
    (void)state;
    static const char *const names[] = {
        "init",   "run",    "front",  "token",  "task",   "page",    "devices", "tokens", "audit",
        "rename", "revoke", "status", "export", "backup", "restore", "check",   "health"};
    char out[4096];
    assert_int_equal(run("--help", out), 0);
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        char words[40];
        assert_non_null(strstr(out, names[k]));
        snprintf(words, sizeof words, "%s --help", names[k]);
        char help[4096];
        assert_int_equal(run(words, help), 0);
        assert_non_null(strstr(help, "usage: fedserver"));
    }
}

static void wrong_usage_exits_with_2(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",
        "nonesuch",
        "token",
        "token --dir",
        "token --dir x --hours 0",
        "token --dir x --count 1x",
        "token --dir x y",
        "token --dir x --bind y",
        "token --dir x --role king",
        "token --dir x --tag ''",
        "run --dir x --device-days 0",
        "run --dir x --device-days 1x",
        "run --dir x --requests 0",
        "front --dir x --front-socket 2",
        "front --dir x --connections 3",
        "run --dir x --page nobody",
        "run --dir x --cluster 127.0.0.1:8445 --upstream https://localhost:8443",
        "front --dir x --cluster 127.0.0.1:8445",
        "front --dir x --page ALL",
        "page --dir x --days 0",
        "page --dir x --page all",
        "run --dir x --front-port 65536",
        "task --dir x",
        "revoke --dir x",
        "rename --dir x abcdef01",
        "task --dir x a b",
        "export --dir x --task -1 y",
        "backup --dir x",
        "restore --dir x",
        "health --dir x y",
        "run --dir x --keep",
    };
    char out[4096];
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        if (run(wrong[k], out) != 2 || strstr(out, "usage") == NULL) {
            fail_msg("fedserver %s: %s", wrong[k], out);
        }
    }
}

static void a_coordinator_is_made_used_and_not_made_again(void **state) {
    (void)state;
    char directory[256];
    char words[700];
    char out[4096];
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(words, sizeof words, "token --dir %s/c", directory);
    assert_int_equal(run(words, out), 1);
    assert_non_null(strstr(out, "fedserver init"));
    snprintf(words, sizeof words, "init --dir %s/c --host localhost --host 10.0.0.1", directory);
    assert_int_equal(run(words, out), 0);
    assert_int_equal(run(words, out), 1);
    assert_non_null(strstr(out, "already"));
    snprintf(words, sizeof words, "init --dir %s/c --keep", directory);
    assert_int_equal(run(words, out), 0);
    assert_non_null(strstr(out, "left as it is"));
    snprintf(words, sizeof words, "cert ca --dir %s/c", directory);
    assert_int_equal(run(words, out), 0);
    assert_ptr_equal(strstr(out, "-----BEGIN CERTIFICATE-----"), out);
    assert_non_null(strstr(out, "-----END CERTIFICATE-----\n"));
    snprintf(words, sizeof words, "health --dir %s/c", directory);
    assert_int_equal(run(words, out), 1);
    assert_non_null(strstr(out, "nobody serves"));
    snprintf(words, sizeof words, "token --dir %s/c --count 3 --hours 2", directory);
    assert_int_equal(run(words, out), 0);
    assert_int_equal(strlen(out), 3 * 44); /* three lines of 43 characters */
    snprintf(words, sizeof words, "token --dir %s/c --role evaluator --tag north", directory);
    assert_int_equal(run(words, out), 0);
    assert_int_equal(strlen(out), 44);
    snprintf(words, sizeof words, "devices --dir %s/c", directory);
    assert_int_equal(run(words, out), 0);
    assert_non_null(strstr(out, "no device is enrolled yet"));
    snprintf(words, sizeof words, "revoke --dir %s/c 0123456789abcdef", directory);
    assert_int_equal(run(words, out), 1);
    assert_non_null(strstr(out, "`fedserver devices` lists them"));
    snprintf(words, sizeof words, "export --dir %s/c %s/m.safetensors", directory, directory);
    assert_int_equal(run(words, out), 1);
    assert_non_null(strstr(out, "no task has started"));
    char path[300];
    snprintf(path, sizeof path, "%s/t.json", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1}", file);
    fclose(file);
    snprintf(words, sizeof words, "task --dir %s/c %s", directory, path);
    assert_int_equal(run(words, out), 0);
    assert_string_equal(out, "task 1 is queued\n");
    snprintf(words, sizeof words, "status --dir %s/c", directory);
    assert_int_equal(run(words, out), 0);
    assert_non_null(strstr(out, "): queued\nnot being served: "));
    snprintf(words, sizeof words, "export --dir %s/c --task 1 %s/m.safetensors", directory,
             directory);
    assert_int_equal(run(words, out), 0);
    fed_test_rmdir(directory);
}

static void a_backup_of_a_site_says_what_it_lacks(void **state) {
    (void)state;
    char directory[256], words[700], out[4096], path[300];
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(words, sizeof words, "init --dir %s/c", directory);
    assert_int_equal(run(words, out), 0);
    snprintf(words, sizeof words, "backup --dir %s/c %s/one", directory, directory);
    assert_int_equal(run(words, out), 0);
    assert_null(strstr(out, "upstream"));
    snprintf(path, sizeof path, "%s/c/upstream", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(words, sizeof words, "backup --dir %s/c %s/two", directory, directory);
    assert_int_equal(run(words, out), 0);
    assert_non_null(strstr(out, "c/upstream is not in it"));
    assert_non_null(strstr(out, "needs a new token"));
    snprintf(path, sizeof path, "%s/two/upstream", directory);
    assert_int_equal(access(path, F_OK), -1);
    fed_test_rmdir(directory);
}

static void a_coordinator_on_sqlite_serves_alone(void **state) {
    (void)state;
    char directory[256], words[700], out[4096];
    fed_error err = {0};
    uint16_t port = 0;
    int fd = -1;
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(words, sizeof words, "init --dir %s/c", directory);
    assert_int_equal(run(words, out), 0);
    static const struct {
        const char *address, *says;
    } wrong[] = {{"127.0.0.1", "its port is not"},        {"127.0.0.1:0", "its port is not"},
                 {"0.0.0.0:8445", "one IP address"},      {"[::]:8445", "one IP address"},
                 {"localhost:8445", "not an IP address"}, {"::1:8445", "no brackets"}};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        snprintf(words, sizeof words, "run --dir %s/c --cluster %s", directory, wrong[k].address);
        assert_int_equal(run(words, out), 1);
        assert_non_null(strstr(out, wrong[k].says));
    }
    assert_fed_ok_err(fedserver_http_listen("127.0.0.1", &port, &fd, &err));
    close(fd);
    snprintf(words, sizeof words, "run --dir %s/c --cluster 127.0.0.1:%u", directory, port);
    assert_int_equal(run(words, out), 1);
    assert_non_null(strstr(out, "can't share the store sqlite"));
    fed_test_rmdir(directory);
}

static void a_browser_is_let_in_by_a_link(void **state) {
    (void)state;
    char directory[256], words[700], out[4096];
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(words, sizeof words, "init --dir %s/c", directory);
    assert_int_equal(run(words, out), 0);
    snprintf(words, sizeof words, "page --dir %s/c", directory);
    assert_int_equal(run(words, out), 0);
    static const char usual[] = "https://localhost:8443/login#";
    assert_memory_equal(out, usual, sizeof usual - 1);
    assert_int_equal(strlen(out), sizeof usual - 1 + 43 + 1);
    snprintf(words, sizeof words, "page --dir %s/c --host ::1 --front-port 9", directory);
    assert_int_equal(run(words, out), 0);
    assert_memory_equal(out, "https://[::1]:9/login#", 22);
    snprintf(words, sizeof words, "page --dir %s/c --bearer --days 7", directory);
    assert_int_equal(run(words, out), 0);
    assert_int_equal(strlen(out), 44);
    snprintf(words, sizeof words, "page --dir %s/c --revoke", directory);
    assert_int_equal(run(words, out), 0);
    assert_non_null(strstr(out, "have ended"));
    fed_test_rmdir(directory);
}

int main(void) {
    if (access(FED_BIN_DIR "/fedserver", X_OK) != 0) {
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_explains_itself),
        cmocka_unit_test(wrong_usage_exits_with_2),
        cmocka_unit_test(a_coordinator_is_made_used_and_not_made_again),
        cmocka_unit_test(a_backup_of_a_site_says_what_it_lacks),
        cmocka_unit_test(a_coordinator_on_sqlite_serves_alone),
        cmocka_unit_test(a_browser_is_let_in_by_a_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
