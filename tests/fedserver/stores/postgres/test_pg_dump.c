/* A backup with PostgreSQL's own tools, as docs/operate.md describes it: pg_dump while the
 * coordinator serves, pg_restore into a new database, and `fedserver check`. Then a coordinator
 * continues with the new database. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fed_postgres.h"
#include "fedserver/stores/stores.h"

static const char task[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                           " \"codec_down\": \"float32\", \"rounds\": 2, \"cohort\": 2}";
static const float ones[6] = {1, 1, 1, 1, 1, 1};
static const float threes[6] = {3, 3, 3, 3, 3, 3};

static void run_tool(const char *name, const char *arguments) {
    char command[1200];
    snprintf(command, sizeof command, "'%s/%s' %s", fed_postgres_programs(), name, arguments);
    assert_int_equal(system(command), 0);
}

static void move_to(const coordinator *c, const char *where) {
    fedserver_store_choice choice;
    fed_error err = {0};
    char text[500];
    snprintf(text, sizeof text, "postgres:%s", where);
    assert_fed_ok_err(fedserver_store_parse(text, &choice, &err));
    assert_fed_ok_err(fedserver_store_write(c->directory, &choice, &err));
}

static void dump_and_restore(const coordinator *c, const char *restored) {
    char arguments[1000];
    char dump[300];
    snprintf(dump, sizeof dump, "%s/fed.dump", c->directory);
    snprintf(arguments, sizeof arguments, "--format=custom --file='%s' '%s'", dump,
             fed_postgres_shared());
    run_tool("pg_dump", arguments);
    fed_postgres_sql(fed_postgres_shared(), "CREATE DATABASE restored", NULL, 0);
    snprintf(arguments, sizeof arguments, "--exit-on-error --dbname='%s' '%s'", restored, dump);
    run_tool("pg_restore", arguments);
}

static void a_restored_dump_is_sound_and_the_coordinator_goes_on(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    char restored[400];
    char elsewhere[300];
    char said[4000];
    char arguments[400];
    (void)coordinator_task(c, task);
    const test_device first = coordinator_enrol(c);
    const test_device second = coordinator_enrol(c);
    const fed_assignment work = device_ask_work(c, &first);
    float before[6];
    assert_int_equal(device_download(c, &first, &work.task, -1, 0, before, NULL), 200);
    assert_int_equal(device_upload(c, &first, &work, ones, 1, NULL), 200);
    coordinator_commit(c);
    snprintf(elsewhere, sizeof elsewhere, "%s/copy", c->directory);
    assert_fed_status(fedserver_backup(c->server, elsewhere, &err), FED_EINVAL);
    assert_fed_says(err, "own means");

    snprintf(restored, sizeof restored, "%s", fed_postgres_shared());
    char *name = strstr(restored, "dbname=postgres");
    assert_non_null(name);
    strcpy(name, "dbname=restored");
    dump_and_restore(c, restored);
    fedserver_close(c->server);
    c->server = NULL;
    fed_postgres_clear(fed_postgres_shared());
    move_to(c, restored);
    snprintf(arguments, sizeof arguments, "check --dir '%s'", c->directory);
    assert_int_equal(fed_test_run(c->directory, "fedserver", arguments, said, sizeof said), 0);
    assert_non_null(strstr(said, "1 bodies of updates"));

    coordinator_crash(c);
    assert_int_equal(device_upload(c, &first, &work, ones, 1, NULL), 200);
    const fed_assignment other = device_ask_work(c, &second);
    assert_int_equal(device_upload(c, &second, &other, threes, 1, NULL), 200);
    coordinator_commit(c);
    bool running = false;
    assert_int_equal(fedserver_version(c->server, &running), 1);
    float values[6] = {0};
    assert_int_equal(device_download(c, &first, &work.task, -1, 1, values, NULL), 200);
    for (int k = 0; k < 6; k++) {
        assert_true(values[k] == before[k] + 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(a_restored_dump_is_sound_and_the_coordinator_goes_on),
    };
    if (!fed_postgres_is_there() || setenv("FED_TEST_STORE", "postgres", 1) != 0) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
