/* A command whose commit fails reports that, exits with status 1, and prints nothing as done.
 * The store is PostgreSQL, where a trigger can make a commit fail. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fed_cases.h"
#include "fed_postgres.h"

static const char task[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                           " \"codec_down\": \"float32\", \"rounds\": 2, \"cohort\": 1}";

/* The directory of a coordinator that no process serves. It has a device, an unused token, a bearer
 * token of the page, and three tasks, the last of them paused. */
typedef struct world {
    coordinator c;
    char device[FED_SHA256_HEX];
    char token[FED_SHA256_HEX];
    char out[8192];
} world;

static int run(world *w, const char *command, const char *rest) {
    char args[600];
    snprintf(args, sizeof args, "%s --dir . %s", command, rest);
    return fed_test_run(w->c.directory, "fedserver", args, w->out, sizeof w->out);
}

static void must_run(world *w, const char *command, const char *rest) {
    if (run(w, command, rest) != 0) {
        fail_msg("fedserver %s %s: %s", command, rest, w->out);
    }
}

static void prepare(world *w) {
    coordinator_setup(&w->c);
    const test_device d = coordinator_enrol(&w->c);
    fed_hex(d.fingerprint, 4, w->device);
    coordinator_commit(&w->c);
    fedserver_close(w->c.server);
    w->c.server = NULL;
    fed_test_put(w->c.directory, "task.json", task, strlen(task));
    for (int k = 0; k < 3; k++) {
        must_run(w, "task", "task.json");
    }
    must_run(w, "pause", "3");
    must_run(w, "page", "--bearer");
    must_run(w, "token", "");
    must_run(w, "tokens", "");
    const char *unused = strstr(w->out, "  unused");
    assert_true(unused != NULL && unused - w->out >= 12);
    snprintf(w->token, sizeof w->token, "%.12s", unused - 12);
}

static void look(world *w, char *text, size_t cap) {
    static const char *const lists[] = {"tokens", "tasks", "devices", "audit"};
    size_t len = 0;
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        must_run(w, lists[k], "");
        len += (size_t)snprintf(text + len, cap - len, "%s", w->out);
        assert_true(len < cap);
    }
}

/* Let changes of rows fail, but only when their transaction commits. */
static void let_commits_fail(void) {
    fed_postgres_sql(
        fed_postgres_shared(),
        "CREATE FUNCTION fedserver.trap() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$;"
        "DO $$ DECLARE t text; BEGIN FOR t IN SELECT tablename FROM pg_tables"
        " WHERE schemaname = 'fedserver' AND tablename NOT IN ('leader', 'revision') LOOP"
        " EXECUTE format('CREATE CONSTRAINT TRIGGER trap AFTER INSERT OR UPDATE OR DELETE ON"
        " fedserver.%I DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION"
        " fedserver.trap()', t); END LOOP; END $$",
        NULL, 0);
}

static const struct {
    const char *command, *rest; /* %s in `rest` stands for the device or the token */
} commands[] = {{"token", ""},         {"token", "--count 3"}, {"tokens", "--withdraw %s"},
                {"task", "task.json"}, {"cancel", "2"},        {"pause", "1"},
                {"resume", "3"},       {"move", "2 1"},        {"rename", "%s it"},
                {"revoke", "%s"},      {"page", ""},           {"page", "--bearer"},
                {"page", "--revoke"}};

FED_TEST(a_command_that_is_not_kept_says_so) {
    static world w;
    char before[8192], after[8192], rest[100];
    prepare(&w);
    look(&w, before, sizeof before);
    let_commits_fail();
    for (size_t k = 0; k < sizeof commands / sizeof commands[0]; k++) {
        const bool of_token = strcmp(commands[k].command, "tokens") == 0;
        snprintf(rest, sizeof rest, commands[k].rest, of_token ? w.token : w.device);
        if (run(&w, commands[k].command, rest) != 1 ||
            strstr(w.out, "the server's disk is full") == NULL ||
            strncmp(w.out, "fedserver", strlen("fedserver")) != 0) {
            fail_msg("fedserver %s %s must print only the error \"disk is full\", not: %s",
                     commands[k].command, rest, w.out);
        }
    }
    fed_postgres_sql(fed_postgres_shared(), "DROP FUNCTION fedserver.trap CASCADE", NULL, 0);
    look(&w, after, sizeof after);
    assert_string_equal(before, after);
    coordinator_teardown(&w.c);
}

int main(void) {
    if (!fed_postgres_is_there() || setenv("FED_TEST_STORE", "postgres", 1) != 0) {
        return 77;
    }
    return fed_cases_run(NULL, NULL);
}
