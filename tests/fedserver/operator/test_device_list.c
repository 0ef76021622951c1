/* What the coordinator stores about each device for people: name, last check-in, software and
 * counts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fedserver/identity/device_table.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/stores/store.h"

static const float ones[6] = {1, 1, 1, 1, 1, 1};

static fedserver_device *row_of(const coordinator *c, const test_device *d) {
    return coordinator_device(c, d);
}

/* Return the device's row as another process would read it from the store. */
static fedserver_device stored(const coordinator *c, const test_device *d) {
    fed_error err = {0};
    fedserver_device device;
    memset(&device, 0, sizeof device);
    assert_fed_ok_err(c->server->store->device_find(c->server->db, d->fingerprint, &device, &err));
    return device;
}

static void small_task(coordinator *c) {
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"codec_down\": \"float32\", \"rounds\": 9, \"deadline_s\": 100,"
                        " \"cohort\": 2, \"goal\": 1}");
}

static void a_tokens_name_goes_before_the_devices_own(void **state) {
    coordinator *c = *state;
    c->device_name = "raspi-17";
    const test_device own = coordinator_enrol(c);
    const fedserver_grant grant = {.ttl_s = 60, .name = "pump 3, hall ä"};
    const test_device named = coordinator_enrol_as(c, &grant);
    coordinator_restart(c);
    assert_string_equal(row_of(c, &own)->name, "raspi-17");
    assert_string_equal(row_of(c, &named)->name, "pump 3, hall ä");
}

static void a_name_from_outside_is_cut_between_characters_and_cleaned(void **state) {
    coordinator *c = *state;
    char name[80];
    memset(name, 'x', sizeof name);
    strcpy(name, "a\tb\xff");
    name[4] = 'y';
    memcpy(name + 62, "ä and so on", 13); /* a cut at the limit would split the first character */
    c->device_name = name;
    const test_device d = coordinator_enrol(c);
    const char *got = row_of(c, &d)->name;
    assert_int_equal(strlen(got), 62);
    assert_int_equal(strncmp(got, "a?b?yxxx", 4), 0);
    assert_int_equal(got[61], 'x');
}

static void an_operators_name_is_taken_as_it_is_or_refused(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    fedserver_entry entry;
    char hex[FED_SHA256_HEX], token[FEDSERVER_TOKEN], wide[100];
    const test_device d = coordinator_enrol(c);
    coordinator_commit(c);
    fed_hex(d.fingerprint, FED_SHA256_SIZE, hex);
    hex[8] = '\0';
    memset(wide, 'w', sizeof wide);
    wide[64] = '\0';
    const fedserver_grant grant = {.ttl_s = 60, .name = wide};
    assert_fed_status(fedserver_token_grant(c->server, c->now_ms, &grant, token, &err), FED_EINVAL);
    assert_fed_status(fedserver_device_rename(c->server, c->now_ms, hex, wide, &entry, &err),
                      FED_EINVAL);
    assert_fed_fails(fedserver_device_rename(c->server, c->now_ms, hex, "a\nb", &entry, &err),
                     FED_EINVAL, "the name \"a?b\" is not valid: give at most 63 bytes");
    wide[63] = '\0';
    assert_fed_ok_err(fedserver_device_rename(c->server, c->now_ms, hex, wide, &entry, &err));
    assert_string_equal(entry.name, wide);
    assert_string_equal(stored(c, &d).name, wide);
    assert_fed_ok_err(fedserver_device_rename(c->server, c->now_ms, hex, "", &entry, &err));
    assert_string_equal(stored(c, &d).name, "");
}

static void a_device_is_meant_by_eight_digits_or_more(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    fedserver_entry entry;
    char hex[FED_SHA256_HEX];
    const test_device d = coordinator_enrol(c);
    coordinator_commit(c);
    fed_hex(d.fingerprint, FED_SHA256_SIZE, hex);
    hex[8] = '\0';
    assert_fed_ok_err(fedserver_device_rename(c->server, c->now_ms, hex, "pump", &entry, &err));
    hex[7] = '\0';
    assert_fed_fails(fedserver_device_rename(c->server, c->now_ms, hex, "lamp", &entry, &err),
                     FED_EINVAL, "at least the first 8 digits");
    assert_string_equal(stored(c, &d).name, "pump");
}

static void last_seen_costs_one_write_a_minute(void **state) {
    coordinator *c = *state;
    c->agent = "fedclientd/9 (test)";
    const test_device d = coordinator_enrol(c);
    coordinator_wait(c, 0);
    const int64_t first_ms = c->now_ms;
    for (int k = 0; k < 10; k++) {
        assert_int_equal(device_ask_work(c, &d).action, FED_ACTION_WAIT);
        coordinator_wait(c, 5000);
        assert_int_equal(stored(c, &d).seen_ms, first_ms);
    }
    const int64_t last_ms = row_of(c, &d)->seen_ms;
    coordinator_wait(c, 10000);
    assert_int_equal(stored(c, &d).seen_ms, last_ms);
    assert_string_equal(stored(c, &d).software, "fedclientd/9 (test)");
    assert_int_equal(device_ask_work(c, &d).action, FED_ACTION_WAIT);
    coordinator_wait(c, 59000);
    assert_int_equal(stored(c, &d).seen_ms, last_ms);
    coordinator_wait(c, 1000);
    assert_true(stored(c, &d).seen_ms > last_ms);
}

static fed_status keep_last(void *user, const fedserver_entry *entry, fed_error *err) {
    (void)err;
    *(fedserver_entry *)user = *entry;
    return FED_OK;
}

/* The field is optional. A device that does not send it, such as a device of an older release,
 * computes on its processor. */
static void what_a_device_computes_on_is_what_its_last_check_in_says(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    const test_device d = coordinator_enrol(c);
    (void)device_ask_work(c, &d);
    assert_string_equal(row_of(c, &d)->computes_on, "");
    char odd[120];
    memset(odd, 'x', sizeof odd);
    memcpy(odd, "cuda:0 \"H\x1b", 10);
    memcpy(odd + 78, "\xc3\xa4", 3); /* a cut at the limit would split this character */
    c->computes_on = odd;
    (void)device_ask_work(c, &d);
    const char *got = row_of(c, &d)->computes_on;
    assert_int_equal(strlen(got), 78);
    assert_int_equal(strncmp(got, "cuda:0 'H?xxx", 13), 0);
    c->computes_on = "opencl:0 pthread-Xeon";
    (void)device_ask_work(c, &d);
    c->computes_on = NULL;
    assert_int_equal(coordinator_status(c, &d, "POST", "/v1/update", "", "x", 1), 400);
    assert_string_equal(row_of(c, &d)->computes_on, "opencl:0 pthread-Xeon");
    answer a = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    assert_non_null(strstr((char *)a.body, "\nfed_devices_computing{on=\"opencl\"} 1\n"));
    assert_non_null(strstr((char *)a.body, "\nfed_devices_computing{on=\"processor\"} 0\n"));
    answer_free(&a);
    coordinator_wait(c, 60000);
    coordinator_wait(c, 60000);
    coordinator_restart(c);
    assert_string_equal(stored(c, &d).computes_on, "opencl:0 pthread-Xeon");
    fedserver_entry entry = {.name = ""};
    assert_fed_ok_err(fedserver_device_each(c->server, c->now_ms, keep_last, &entry, &err));
    assert_string_equal(entry.computes_on, "opencl:0 pthread-Xeon");
    (void)device_ask_work(c, &d);
    assert_string_equal(row_of(c, &d)->computes_on, "");
}

static void what_became_of_updates_is_counted_for_each_device(void **state) {
    coordinator *c = *state;
    small_task(c);
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    const fed_assignment first = device_ask_work(c, &a), second = device_ask_work(c, &b);
    assert_int_equal(second.action, FED_ACTION_TRAIN);
    assert_int_equal(device_upload(c, &a, &first, ones, 1, NULL), 200);
    assert_int_equal(device_upload(c, &a, &first, ones, 1, NULL), 200);
    assert_int_equal(device_upload(c, &b, &second, ones, 1, NULL), 409);
    assert_int_equal(coordinator_status(c, &a, "POST", "/v1/update", "", "x", 1), 400);
    coordinator_wait(c, 60000);
    coordinator_wait(c, 60000);
    const fedserver_device of_a = stored(c, &a), of_b = stored(c, &b);
    assert_true(of_a.counted == 1 && of_a.late == 0 && of_a.refused == 1);
    assert_true(of_b.counted == 0 && of_b.late == 1 && of_b.refused == 0);
}

static fed_status find_state(void *user, const fedserver_entry *entry, fed_error *err) {
    (void)err;
    *(const char **)user = entry->state;
    return FED_OK;
}

/* Read the states as a second process does, beside the coordinator that serves. */
static void the_command_line_sees_who_trains(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    fedserver *other;
    const char *word = "";
    const test_device d = coordinator_enrol(c);
    small_task(c);
    assert_int_equal(device_ask_work(c, &d).action, FED_ACTION_TRAIN);
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &other, &err));
    assert_fed_ok_err(fedserver_device_each(other, c->now_ms, find_state, &word, &err));
    assert_string_equal(word, "training");
    fedserver_close(other);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &other, &err));
    assert_fed_ok_err(fedserver_device_each(other, c->now_ms + 101000, find_state, &word, &err));
    assert_string_equal(word, "late");
    fedserver_close(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(a_tokens_name_goes_before_the_devices_own),
        WITH_COORDINATOR(a_name_from_outside_is_cut_between_characters_and_cleaned),
        WITH_COORDINATOR(an_operators_name_is_taken_as_it_is_or_refused),
        WITH_COORDINATOR(a_device_is_meant_by_eight_digits_or_more),
        WITH_COORDINATOR(last_seen_costs_one_write_a_minute),
        WITH_COORDINATOR(what_a_device_computes_on_is_what_its_last_check_in_says),
        WITH_COORDINATOR(what_became_of_updates_is_counted_for_each_device),
        WITH_COORDINATOR(the_command_line_sees_who_trains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
