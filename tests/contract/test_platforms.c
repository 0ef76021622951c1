/* Contract of every platform of platforms.def (fedclient/platform.h), also on a failing disk. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_sweep.h"
#include "fed_test.h"

#include <sys/resource.h>

#include "fed/clock.h"
#include "fedclient/memory_store.h"
#include "fedclient/platform.h"
#include "flash_file.h"

typedef struct kind {
    const char *name;
    /* One of these two functions is NULL. */
    fed_status (*open_directory)(const char *directory, fedclient_platform *p, fed_error *err);
    fed_status (*open_memory)(fedclient_platform *p, fed_error *err);
    void (*close)(fedclient_platform *p);
    size_t large; /* bytes of a large value */
    uint64_t step;
} kind;

enum { LARGE = 5000001 };

static const kind kinds[] = {
#define FEDCLIENT_PLATFORM_ON_DISK(folder)                                                         \
    {                                                                                              \
        #folder, fedclient_platform_##folder##_open,                                               \
        NULL,    fedclient_platform_##folder##_close,                                              \
        LARGE,   1},
#define FEDCLIENT_PLATFORM_ON_FLASH(folder)                                                        \
    {#folder, flash_file_open, NULL, flash_file_close, 150001, 41},
#define FEDCLIENT_PLATFORM_IN_MEMORY(folder)                                                       \
    {#folder, NULL, fedclient_platform_##folder##_open, fedclient_platform_##folder##_close,       \
     LARGE,   1},
#include "fedclient/platforms/platforms.def"
#undef FEDCLIENT_PLATFORM_ON_DISK
#undef FEDCLIENT_PLATFORM_ON_FLASH
#undef FEDCLIENT_PLATFORM_IN_MEMORY
};

static const kind *tried;

typedef struct world {
    char base[256], directory[300];
    fedclient_platform p;
    fed_error err;
} world;

static fed_status open_platform(const world *w, fedclient_platform *p, fed_error *err) {
    return tried->open_memory != NULL ? tried->open_memory(p, err)
                                      : tried->open_directory(w->directory, p, err);
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->base, sizeof w->base);
    snprintf(w->directory, sizeof w->directory, "%s/some/where", w->base);
    assert_fed_ok(open_platform(w, &w->p, &w->err));
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    tried->close(&w->p);
    fed_test_rmdir(w->base);
    free(w);
    return 0;
}

static void put(world *w, const char *key, const char *text) {
    assert_fed_ok(w->p.put(w->p.user, key, text, strlen(text), &w->err));
}

static void assert_value(world *w, const char *key, const char *text) {
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_ok(w->p.get(w->p.user, key, &data, &len, &w->err));
    assert_int_equal(len, strlen(text));
    assert_memory_equal(data, text, len);
    free(data);
}

static void assert_absent(world *w, const char *key) {
    uint8_t *data = NULL;
    size_t len = 7;
    assert_fed_status(w->p.get(w->p.user, key, &data, &len, &w->err), FED_ENOTFOUND);
    assert_true(data == NULL && len == 7);
    assert_true(w->err.text[0] != '\0');
}

static void values_are_copies(void **state) {
    world *w = *state;
    char text[] = "value";
    uint8_t *data = NULL;
    size_t len = 0;
    put(w, "key", text);
    text[0] = 'X';
    assert_fed_ok(w->p.get(w->p.user, "key", &data, &len, &w->err));
    data[1] = 'X';
    free(data);
    assert_value(w, "key", "value");
}

static void a_value_is_replaced_whole_and_no_other(void **state) {
    world *w = *state;
    static const char *const values[] = {"middle", "short", "", "the longest of them"};
    for (size_t k = 0; k < 4; k++) {
        put(w, "key", values[k]);
        put(w, "key.pem", "same");
        assert_value(w, "key", values[k]);
        assert_value(w, "key.pem", "same");
    }
}

static void a_value_that_is_not_there_is_not_found(void **state) {
    world *w = *state;
    assert_absent(w, "model");
    put(w, "model", "x");
    put(w, "other", "y");
    assert_fed_ok(w->p.drop(w->p.user, "model", &w->err));
    assert_fed_ok(w->p.drop(w->p.user, "model", &w->err));
    assert_absent(w, "model");
    assert_value(w, "other", "y");
    put(w, "model", "again");
    assert_value(w, "model", "again");
}

static void a_large_value_comes_back(void **state) {
    world *w = *state;
    const size_t large = tried->large;
    uint8_t *data = malloc(large), *read = NULL;
    size_t len = 0;
    assert_non_null(data);
    for (size_t k = 0; k < large; k++) {
        data[k] = (uint8_t)(k * 7 + k / 251);
    }
    assert_fed_ok(w->p.put(w->p.user, "residual", data, large, &w->err));
    assert_fed_ok(w->p.get(w->p.user, "residual", &read, &len, &w->err));
    assert_int_equal(len, large);
    assert_memory_equal(data, read, large);
    free(read);
    free(data);
}

static void time_goes_forward_and_the_date_is_of_this_century(void **state) {
    world *w = *state;
    int64_t before_ms = w->p.monotonic_ms(w->p.user);
    for (int k = 0; k < 10000; k++) {
        const int64_t now_ms = w->p.monotonic_ms(w->p.user);
        assert_true(now_ms >= before_ms);
        before_ms = now_ms;
    }
    assert_true(w->p.unix_ms(w->p.user) > INT64_C(1600000000000));
}

static bool on_disk(void) {
    return tried->open_directory != NULL;
}

static void reopen(world *w) {
    tried->close(&w->p);
    assert_fed_ok(open_platform(w, &w->p, &w->err));
}

static void values_survive_where_there_is_a_disk(void **state) {
    world *w = *state;
    if (!on_disk()) {
        assert_non_null(w->p.memory);
        return;
    }
    /* A disk can damage values, so it does not count as memory. */
    assert_null(w->p.memory);
    put(w, "residual", "first");
    put(w, "residual", "second, longer");
    put(w, "model", "");
    reopen(w);
    assert_value(w, "residual", "second, longer");
    assert_value(w, "model", "");
}

static bool is_busy(const world *w) {
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        fedclient_platform second = {0};
        fed_error err = {0};
        _exit(open_platform(w, &second, &err) == FED_EBUSY ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return how == 0;
}

static void one_client_has_a_directory(void **state) {
    world *w = *state;
    fedclient_platform second = {0};
    if (!on_disk()) {
        return;
    }
    assert_fed_status(open_platform(w, &second, &w->err), FED_EBUSY);
    assert_fed_says(w->err, w->directory);
    assert_true(is_busy(w));
    tried->close(&w->p);
    assert_false(is_busy(w));
    assert_fed_ok(open_platform(w, &w->p, &w->err));
}

enum { VALUE = 50000 };

static fed_status put_all(fedclient_platform *p, uint8_t byte, fed_error *err) {
    static uint8_t data[VALUE];
    memset(data, byte, sizeof data);
    return p->put(p->user, "residual", data, sizeof data, err);
}

static uint8_t value_of(fedclient_platform *p) {
    uint8_t *data = NULL;
    size_t len = 0;
    fed_error err = {0};
    fed_status status = p->get(p->user, "residual", &data, &len, &err);
    uint8_t byte = 0;
    assert_true(status == FED_OK || status == FED_ENOTFOUND);
    if (status == FED_OK) {
        assert_int_equal(len, VALUE);
        byte = data[0];
        for (size_t k = 0; k < len; k++) {
            assert_int_equal(data[k], byte);
        }
    }
    free(data);
    return byte;
}

static void start_with_1(void *user) {
    world *w = user;
    fed_test_rmdir(w->directory);
    assert_fed_ok(open_platform(w, &w->p, &w->err));
    assert_fed_ok(put_all(&w->p, 1, &w->err));
    put(w, "identity", "kept");
    tried->close(&w->p);
}

static bool deed_put(void *user) {
    world *w = user;
    if (open_platform(w, &w->p, &w->err) != FED_OK) {
        return false;
    }
    const fed_status status = put_all(&w->p, 2, &w->err);
    const uint8_t now = value_of(&w->p);
    if (status != FED_OK && (now != 1 && now != 2)) {
        abort();
    }
    return status == FED_OK;
}

static bool deed_drop(void *user) {
    world *w = user;
    return open_platform(w, &w->p, &w->err) == FED_OK &&
           w->p.drop(w->p.user, "residual", &w->err) == FED_OK;
}

static void expect(world *w, uint8_t changed, bool acknowledged) {
    assert_fed_ok(open_platform(w, &w->p, &w->err));
    const uint8_t now = value_of(&w->p);
    assert_true(now == changed || (now == 1 && !acknowledged));
    assert_value(w, "identity", "kept");
    put(w, "identity", "kept");
    tried->close(&w->p);
}

static void expect_put(void *user, bool acknowledged) {
    expect(user, 2, acknowledged);
}

static void expect_dropped(void *user, bool acknowledged) {
    expect(user, 0, acknowledged);
}

static void sweep(world *w, uint64_t step, bool (*deed)(void *), void (*end)(void *, bool)) {
    if (on_disk()) {
        const fault_sweep s = {w->directory, step, w, start_with_1, deed, end};
        tried->close(&w->p);
        fault_sweep_run(&s);
        assert_fed_ok(open_platform(w, &w->p, &w->err));
    }
}

static void whatever_fails_the_old_value_or_the_new_one_is_there(void **state) {
    sweep(*state, tried->step, deed_put, expect_put);
}

static void whatever_fails_a_value_is_there_or_dropped(void **state) {
    sweep(*state, 1, deed_drop, expect_dropped);
}

/* At the limit on a file's size, a write is short, and the next one fails. */
static void a_short_write_is_a_failure_and_the_old_value_stays(void **state) {
    world *w = *state;
    if (!on_disk()) {
        return;
    }
    assert_fed_ok(put_all(&w->p, 1, &w->err));
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit most = {VALUE / 2, VALUE / 2};
        signal(SIGXFSZ, SIG_IGN);
        bool right = setrlimit(RLIMIT_FSIZE, &most) == 0;
        right = right && put_all(&w->p, 2, &w->err) != FED_OK && w->err.text[0] != '\0';
        _exit(right && value_of(&w->p) == 1 ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
    assert_int_equal(value_of(&w->p), 1);
}

static void *room_of(const fedclient_platform *p, const char *text) {
    void *room = p->memory->room(p->user, 100);
    assert_non_null(room);
    memcpy(room, text, strlen(text));
    return room;
}

static void what_is_given_is_lent_where_it_lies(void **state) {
    world *w = *state;
    const fedclient_platform *p = &w->p;
    const uint8_t *data = NULL;
    size_t len = 0;
    if (p->memory == NULL) {
        return;
    }
    assert_fed_status(p->memory->lend(p->user, "key", &data, &len, NULL), FED_ENOTFOUND);
    const void *first = room_of(p, "first");
    assert_fed_ok(p->memory->give(p->user, "key", (void *)(uintptr_t)first, 5, NULL));
    assert_fed_ok(p->memory->lend(p->user, "key", &data, &len, NULL));
    assert_ptr_equal(data, first);
    assert_value(w, "key", "first");
    assert_fed_ok(p->memory->give(p->user, "key", room_of(p, "other one"), 9, NULL));
    assert_value(w, "key", "other one");
    p->memory->leave(p->user, room_of(p, "nobody's"));
    put(w, "key", "put");
    assert_value(w, "key", "put");
}

static void what_is_edited_is_changed(void **state) {
    world *w = *state;
    const fedclient_platform *p = &w->p;
    uint8_t *data = NULL;
    size_t len = 0;
    if (p->memory == NULL || p->memory->edit == NULL) {
        return;
    }
    assert_fed_status(p->memory->edit(p->user, "key", &data, &len, NULL), FED_ENOTFOUND);
    put(w, "key", "value");
    assert_fed_ok(p->memory->edit(p->user, "key", &data, &len, NULL));
    assert_int_equal(len, 5);
    data[0] = 'V';
    assert_value(w, "key", "Value");
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(values_are_copies),
        test(a_value_is_replaced_whole_and_no_other),
        test(a_value_that_is_not_there_is_not_found),
        test(a_large_value_comes_back),
        test(time_goes_forward_and_the_date_is_of_this_century),
        test(values_survive_where_there_is_a_disk),
        test(one_client_has_a_directory),
        test(whatever_fails_the_old_value_or_the_new_one_is_there),
        test(whatever_fails_a_value_is_there_or_dropped),
        test(a_short_write_is_a_failure_and_the_old_value_stays),
        test(what_is_given_is_lent_where_it_lies),
        test(what_is_edited_is_changed),
    };
    int failures = 0;
    fault_sweep_in_memory();
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        tried = &kinds[k];
        failures += cmocka_run_group_tests_name(tried->name, tests, NULL, NULL);
    }
    return failures;
}
