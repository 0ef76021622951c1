/* The table of a task's keys: each line must agree with the key's default, with what devices
 * are told, and with the page that explains the keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/file.h"
#include "fedserver/task/fields.h"

static json_t *load(const char *text) {
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    return value;
}

static const fedserver_field *find(const char *name) {
    for (fedserver_field_id id = 0; id < FEDSERVER_FIELDS; id++) {
        if (strcmp(fedserver_fields[id].name, name) == 0) {
            return &fedserver_fields[id];
        }
    }
    fail_msg("the table of a task's keys has no key %s", name);
    return NULL;
}

FED_TEST(names_are_unlike) {
    for (fedserver_field_id id = 0; id < FEDSERVER_FIELDS; id++) {
        assert_ptr_equal(find(fedserver_fields[id].name), &fedserver_fields[id]);
    }
}

FED_TEST(defaults_are_within_their_bounds) {
    fedserver_config config;
    for (fedserver_field_id id = 0; id < FEDSERVER_FIELDS; id++) {
        const fedserver_field *field = &fedserver_fields[id];
        if (field->preset == NULL || field->preset[0] == '\0') {
            continue;
        }
        memset(&config, 0, sizeof config);
        char *member = (char *)&config + field->offset, again[4096], found[96];
        fed_writer w;
        fedserver_field_preset(field, member);
        fed_writer_fixed(&w, again, sizeof again);
        fedserver_field_write(field, member, &w);
        assert_fed_ok(w.status);
        json_t *value = load(again);
        const char *wrong = fedserver_field_take(field, member, value, true, found);
        if (wrong != NULL) {
            fail_msg("the default of the key %s is not allowed: %s", field->name, wrong);
        }
        json_decref(value);
    }
}

static const char *take(const char *name, const char *json, bool bounded, void *member) {
    static char found[96];
    json_t *value = load(json);
    const char *wrong = fedserver_field_take(find(name), member, value, bounded, found);
    if (wrong != NULL && wrong != found) {
        snprintf(found, sizeof found, "%s", wrong);
    }
    json_decref(value);
    return wrong != NULL ? found : "";
}

FED_TEST(a_value_that_is_not_allowed_is_named) {
    char member[4096];
    assert_string_equal(take("batch", "\"8\"", true, member), "not an integer");
    assert_string_equal(take("batch", "8.0", true, member), "not an integer");
    assert_string_equal(take("batch", "65537", true, member), "65537");
    assert_string_equal(take("batch", "0", true, member), "0");
    assert_string_equal(take("batch", "65536", true, member), "");
    assert_string_equal(take("deadline_s", "0.05", true, member), "0.05");
    assert_string_equal(take("deadline_s", "true", true, member), "not a number");
    assert_string_equal(take("tag", "\"\"", true, member), "empty");
    assert_string_equal(take("tag", "7", true, member), "not a text");
    assert_string_equal(take("selection", "\"random\"", true, member), "\"random\"");
    assert_string_equal(take("selection", "\"uniform, weighted\"", true, member),
                        "\"uniform, weighted\"");
    assert_string_equal(take("phases", "{}", true, member), "not a list");
    assert_string_equal(take("phases", "[]", true, member), "");
}

/* The key `app` has a JSON object that only the application interprets. */
FED_TEST(an_object_is_kept_as_it_is) {
    static const char same[] = "{\"z\":[1,2.5,null,true],\"a\":{\"\u00fc\":\"x y\"}}";
    const fedserver_field *field = find("app");
    char member[2048], json[2048], text[2048];
    fed_writer w;
    assert_string_equal(
        take("app", " {\"z\": [1, 2.5, null, true],\n\"a\":{\"\u00fc\": \"x y\"}} ", true, member),
        "");
    assert_string_equal(member, same);
    fed_writer_fixed(&w, text, sizeof text);
    fedserver_field_write(field, member, &w);
    assert_string_equal(text, same);
    assert_string_equal(take("app", "{}", true, member), "");
    assert_string_equal(member, "{}");
    assert_string_equal(take("app", "\"x\"", true, member), "not an object");
    assert_string_equal(take("app", "[1]", true, member), "not an object");
    static const char above[] = "too long: it has 1024 bytes, and the limit is 1023";
    for (size_t excess = 0; excess < 2; excess++) {
        const size_t blanks = field->size - 1 - strlen("{\"a\":\"\"}") + excess;
        snprintf(json, sizeof json, "{\"a\":\"%*s\"}", (int)blanks, "");
        assert_string_equal(take("app", json, true, member), excess == 0 ? "" : above);
    }
    fedserver_field_preset(field, member);
    fed_writer_fixed(&w, text, sizeof text);
    fedserver_field_write(field, member, &w);
    assert_string_equal(text, "null");
}

/* A stored value was checked when it was written. Only its size is checked again. */
FED_TEST(a_stored_value_must_only_fit) {
    uint32_t number = 0;
    float rate = 0;
    char text[FEDSERVER_TAG];
    assert_string_equal(take("cohort", "1300000", false, &number), "");
    assert_int_equal(number, 1300000);
    assert_string_equal(take("cohort", "4294967296", false, &number), "4294967296");
    assert_string_equal(take("cohort", "-1", false, &number), "-1");
    assert_string_equal(take("learning_rate", "1e-31", false, &rate), "");
    assert_true(rate == 1e-31f);
    assert_string_equal(take("learning_rate", "1e300", false, &rate), "1e+300");
    assert_string_equal(take("tag", "\"\"", false, text), "");
    assert_string_equal(take("tag", "\"an address of more than 31 bytes!\"", false, text),
                        "too long: it has 33 bytes, and the limit is 31");
}

FED_TEST(each_choice_is_its_number) {
    static const char *const names[] = {"\"uniform\"", "\"weighted\"", "\"round_robin\""};
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t value = 77;
        char text[40];
        fed_writer w;
        assert_string_equal(take("selection", names[k], true, &value), "");
        assert_int_equal(value, k);
        fed_writer_fixed(&w, text, sizeof text);
        fedserver_field_write(find("selection"), &value, &w);
        assert_string_equal(text, names[k]);
    }
}

static void put(const fedserver_field *field, char *member, unsigned k) {
    if (field->type == FEDSERVER_CHARS) {
        snprintf(member, field->size, "text %u", k);
    } else if (field->type == FEDSERVER_F32) {
        *(float *)(void *)member = (field->high < 1 ? 0 : (float)k) + 0.5f;
    } else if (field->type == FEDSERVER_U32) {
        *(uint32_t *)(void *)member = 1000 + k;
    } else {
        assert_int_equal(field->type, FEDSERVER_U64);
        *(uint64_t *)(void *)member = 1000 + k;
    }
}

/* Each key that is a member of fed_task needs a line in common/messages/wire.c, too. */
FED_TEST(each_key_that_devices_are_told_travels) {
    fedserver_config config = {.task.wire.id = 7};
    fed_assignment got, sent = {.action = FED_ACTION_TRAIN};
    unsigned told = 0;
    for (fedserver_field_id id = 0; id < FEDSERVER_FIELDS; id++) {
        if (fedserver_field_told(&fedserver_fields[id])) {
            put(&fedserver_fields[id], (char *)&config + fedserver_fields[id].offset, ++told);
        }
    }
    assert_true(told >= 8);
    sent.task = config.task.wire;
    sent.capabilities = FED_CAN_PIECES | fed_task_capabilities();
    fed_writer w;
    fed_reader r;
    fed_writer_growing(&w);
    fed_assignment_write(&w, 2, &sent);
    fed_reader_init(&r, w.data, w.len);
    memset(&got, 0, sizeof got);
    assert_fed_ok(fed_assignment_read(&r, 2, &got));
    assert_fed_ok(fed_reader_end(&r));
    for (fedserver_field_id id = 0; id < FEDSERVER_FIELDS; id++) {
        const fedserver_field *field = &fedserver_fields[id];
        if (fedserver_field_told(field)) {
            const size_t at = field->offset - offsetof(fedserver_config, task.wire);
            assert_memory_equal((char *)&got.task + at, (char *)&sent.task + at, field->size);
        }
    }
    fed_writer_free(&w);
}

static const char *scope(const fedserver_field *field) {
    const bool told = fedserver_field_told(field), phases = field->where == FEDSERVER_IN_BOTH;
    return told && phases ? "devices, phases |" : told ? "devices |" : phases ? "phases |" : "|";
}

FED_TEST(the_page_has_each_key) {
    fed_error err = {0};
    uint8_t *page = NULL;
    size_t len = 0;
    const char *path = FED_SOURCE_DIR "/docs/protocol.md";
    assert_fed_ok_err(fed_file_read(path, 1 << 20, &page, &len, &err));
    for (fedserver_field_id id = 0; id < FEDSERVER_FIELDS; id++) {
        const fedserver_field *field = &fedserver_fields[id];
        char row[400], rest[200], right[96];
        const bool required = field->preset == NULL, some = !required && field->preset[0] != '\0';
        snprintf(rest, sizeof rest, some ? "`%s` | %s" : "%s",
                 required ? "required |"
                 : some   ? field->preset
                          : "",
                 scope(field));
        snprintf(row, sizeof row, "\n| `%s` | %s | %s", field->name,
                 fedserver_field_right(field, right), rest);
        if ((field->where & FEDSERVER_IN_TASK) != 0 && strstr((const char *)page, row) == NULL) {
            fail_msg("docs/protocol.md#task lacks a row that begins with:%s", row);
        }
    }
    free(page);
}
