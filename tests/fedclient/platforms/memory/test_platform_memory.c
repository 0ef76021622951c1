/* The memory platform: a store that is a copy of what it was given. */
#include "fed_test.h"
#include "fedclient/memory_store.h"

static int setup(void **state) {
    fedclient_platform *platform = calloc(1, sizeof *platform);
    assert_non_null(platform);
    assert_fed_ok(fedclient_platform_memory_open(platform, NULL));
    *state = platform;
    return 0;
}

static int teardown(void **state) {
    fedclient_platform_memory_close(*state);
    free(*state);
    return 0;
}

static void assert_value(const fedclient_platform *p, const char *key, const char *text) {
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_ok(p->get(p->user, key, &data, &len, NULL));
    assert_int_equal(len, strlen(text));
    assert_memory_equal(data, text, len);
    free(data);
}

static void values_are_copies(void **state) {
    const fedclient_platform *p = *state;
    char text[] = "value";
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_ok(p->put(p->user, "key", text, strlen(text), NULL));
    text[0] = 'X';
    assert_fed_ok(p->get(p->user, "key", &data, &len, NULL));
    data[1] = 'X';
    free(data);
    assert_value(p, "key", "value");
}

static void a_value_is_replaced_whole(void **state) {
    const fedclient_platform *p = *state;
    static const char *const values[] = {"middle", "short", "", "the longest of them"};
    for (size_t k = 0; k < 4; k++) {
        assert_fed_ok(p->put(p->user, "key", values[k], strlen(values[k]), NULL));
        assert_fed_ok(p->put(p->user, "other", "same", 4, NULL));
        assert_value(p, "key", values[k]);
        assert_value(p, "other", "same");
    }
}

static void a_dropped_value_is_gone(void **state) {
    const fedclient_platform *p = *state;
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_ok(p->put(p->user, "a", "1", 1, NULL));
    assert_fed_ok(p->put(p->user, "b", "2", 1, NULL));
    assert_fed_ok(p->drop(p->user, "a", NULL));
    assert_fed_ok(p->drop(p->user, "a", NULL));
    assert_fed_status(p->get(p->user, "a", &data, &len, NULL), FED_ENOTFOUND);
    assert_value(p, "b", "2");
}

static void *room_of(const fedclient_platform *p, const char *text) {
    void *room = p->memory->room(p->user, 100);
    assert_non_null(room);
    memcpy(room, text, strlen(text));
    return room;
}

static void what_is_given_is_lent_where_it_lies(void **state) {
    const fedclient_platform *p = *state;
    const uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_status(p->memory->lend(p->user, "key", &data, &len, NULL), FED_ENOTFOUND);
    const void *first = room_of(p, "first");
    assert_fed_ok(p->memory->give(p->user, "key", (void *)(uintptr_t)first, 5, NULL));
    assert_fed_ok(p->memory->lend(p->user, "key", &data, &len, NULL));
    assert_ptr_equal(data, first);
    assert_value(p, "key", "first");
    assert_fed_ok(p->memory->give(p->user, "key", room_of(p, "other one"), 9, NULL));
    assert_value(p, "key", "other one");
    p->memory->leave(p->user, room_of(p, "nobody's"));
    assert_fed_ok(p->put(p->user, "key", "put", 3, NULL));
    assert_value(p, "key", "put");
}

static void what_is_edited_is_changed(void **state) {
    const fedclient_platform *p = *state;
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_status(p->memory->edit(p->user, "key", &data, &len, NULL), FED_ENOTFOUND);
    assert_fed_ok(p->put(p->user, "key", "value", 5, NULL));
    assert_fed_ok(p->memory->edit(p->user, "key", &data, &len, NULL));
    assert_int_equal(len, 5);
    data[0] = 'V';
    assert_value(p, "key", "Value");
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(values_are_copies),         test(a_value_is_replaced_whole),
        test(a_dropped_value_is_gone),   test(what_is_given_is_lent_where_it_lies),
        test(what_is_edited_is_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
