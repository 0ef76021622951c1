/* The command line: what it prints and how it exits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <sys/stat.h>
#include <unistd.h>

#include "fedserver/http.h"

typedef struct shop {
    char directory[256];
    char out[4096];
} shop;

static int setup(void **state) {
    static shop s;
    fed_test_tmpdir(s.directory, sizeof s.directory);
    *state = &s;
    return 0;
}

static int teardown(void **state) {
    fed_test_rmdir(((shop *)*state)->directory);
    return 0;
}

static int run(shop *s, const char *words) {
    return fed_test_run(s->directory, "fedserver", words, s->out, sizeof s->out);
}

static void expect(shop *s, const char *words, int code, const char *says) {
    if (run(s, words) != code || strstr(s->out, says) == NULL) {
        fail_msg("fedserver %s has another status or output than expected: %s", words, s->out);
    }
}

FED_TEST_WITH(every_command_explains_itself, shop *s) {
    static const char *const names[] = {
        "init",   "run",    "front",  "token",  "task",   "page",    "devices", "tokens", "audit",
        "rename", "revoke", "status", "export", "backup", "restore", "check",   "health"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        char words[40];
        expect(s, "--help", 0, names[k]);
        snprintf(words, sizeof words, "%s --help", names[k]);
        expect(s, words, 0, "usage: fedserver");
    }
}

FED_TEST_WITH(wrong_usage_exits_with_2, shop *s) {
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
        "restore --dir x --database backup",
        "health --dir x y",
        "run --dir x --keep",
    };
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        expect(s, wrong[k], 2, "usage");
    }
}

FED_TEST_WITH(a_coordinator_is_made_used_and_not_made_again, shop *s) {
    static const char task[] = "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1}";
    static const char make[] = "init --dir c --host localhost --host 10.0.0.1";
    expect(s, "token --dir c", 1, "fedserver init");
    expect(s, "check --dir c", 1, "c holds no coordinator: give the directory of one, or make");
    expect(s, "restore --dir d c", 1, "give a directory that `fedserver backup` made");
    assert_null(strstr(s->out, "fedserver init"));
    expect(s, make, 0, "");
    expect(s, make, 1, "already");
    expect(s, "init --dir c --keep", 0, "left as it is");
    expect(s, "cert ca --dir c", 0, "-----END CERTIFICATE-----\n");
    assert_ptr_equal(strstr(s->out, "-----BEGIN CERTIFICATE-----"), s->out);
    expect(s, "health --dir c", 1, "nobody serves");
    expect(s, "token --dir c --count 3 --hours 2", 0, "");
    assert_int_equal(strlen(s->out), 3 * 44); /* three lines of 43 characters */
    expect(s, "token --dir c --role evaluator --tag north", 0, "");
    assert_int_equal(strlen(s->out), 44);
    expect(s, "devices --dir c", 0, "no device is enrolled yet");
    expect(s, "revoke --dir c 0123456789abcdef", 1, "`fedserver devices` lists them");
    expect(s, "export --dir c m.safetensors", 1, "no task has started");
    expect(s, "reopen --dir c 1", 1, "there is no task 1");
    expect(s, "restore --dir c --database", 0, "knows now that its store was restored");
    expect(s, "audit --dir c", 0, "restored");
    fed_test_put(s->directory, "t.json", task, strlen(task));
    expect(s, "task --dir c t.json", 0, "");
    assert_non_null(strstr(s->out, "task 1 is queued\n"));
    assert_non_null(strstr(s->out,
                           "note: a round of it needs 1 device, and 0 that may train for it "
                           "are enrolled: admit more with `fedserver token`\n"));
    expect(s, "status --dir c", 0, "): queued\nnot being served: ");
    expect(s, "export --dir c --task 1 m.safetensors", 0, "");
}

FED_TEST_WITH(a_task_says_what_stays_on_the_devices, shop *s) {
    static const char task[] = "{\"model\": \"input 8 | dense 6 | relu | dense 3\", \"rounds\": 1,"
                               " \"cohort\": 1, \"private_layers\": \"head\"}";
    fed_test_put(s->directory, "t.json", task, strlen(task));
    expect(s, "init --dir c", 0, "");
    expect(s, "task --dir c t.json", 0,
           "private layers: 21 of 75 values stay on each device, and 54 travel\n");
}

FED_TEST_WITH(a_backup_of_an_edge_says_what_it_lacks, shop *s) {
    char path[300];
    expect(s, "init --dir c", 0, "");
    expect(s, "backup --dir c one", 0, "");
    assert_null(strstr(s->out, "upstream"));
    snprintf(path, sizeof path, "%s/c/upstream", s->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    expect(s, "backup --dir c two", 0, "c/upstream is not in the backup");
    assert_non_null(strstr(s->out, "needs a new token"));
    snprintf(path, sizeof path, "%s/two/upstream", s->directory);
    assert_int_equal(access(path, F_OK), -1);
}

FED_TEST_WITH(a_coordinator_on_sqlite_serves_alone, shop *s) {
    char words[100];
    fed_error err = {0};
    uint16_t port = 0;
    int fd = -1;
    expect(s, "init --dir c", 0, "");
    static const struct {
        const char *address, *says;
    } wrong[] = {{"127.0.0.1", "its port is not"},        {"127.0.0.1:0", "its port is not"},
                 {"0.0.0.0:8445", "one IP address"},      {"[::]:8445", "one IP address"},
                 {"localhost:8445", "not an IP address"}, {"::1:8445", "no brackets"}};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        snprintf(words, sizeof words, "run --dir c --cluster %s", wrong[k].address);
        expect(s, words, 1, wrong[k].says);
    }
    assert_fed_ok_err(fedserver_http_listen("127.0.0.1", &port, &fd, &err));
    close(fd);
    snprintf(words, sizeof words, "run --dir c --cluster 127.0.0.1:%u", port);
    expect(s, words, 1, "can't share the store sqlite");
}

FED_TEST_WITH(a_browser_is_let_in_by_a_link, shop *s) {
    static const char usual[] = "https://localhost:8443/login#";
    expect(s, "init --dir c", 0, "");
    expect(s, "page --dir c", 0, usual);
    assert_memory_equal(s->out, usual, sizeof usual - 1);
    assert_int_equal(strlen(s->out), sizeof usual - 1 + 43 + 1);
    expect(s, "page --dir c --host ::1 --front-port 9", 0, "");
    assert_memory_equal(s->out, "https://[::1]:9/login#", 22);
    fed_error err = {0};
    fedserver *server = NULL;
    char path[300];
    snprintf(path, sizeof path, "%s/c", s->directory);
    assert_fed_ok_err(fedserver_open(path, NULL, &server, &err));
    fedserver_ports(server, 9443, 9444);
    fedserver_close(server);
    expect(s, "page --dir c", 0, "https://localhost:9443/login#");
    expect(s, "page --dir c --front-port 8443", 0, usual);
    expect(s, "page --dir c --bearer --days 7", 0, "");
    assert_int_equal(strlen(s->out), 44);
    expect(s, "page --dir c --revoke", 0, "have ended");
}

int main(void) {
    if (access(FED_BIN_DIR "/fedserver", X_OK) != 0) {
        return 77;
    }
    return fed_cases_run_each(setup, teardown);
}
