/* The text in which a store keeps a task: it is read back bit for bit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/rng.h"
#include "fedserver/task/config.h"
#include "fedserver/task/fields.h"
#include "fedserver/task/task_text.h"

static char *text_of(const fedserver_task *task) {
    fed_writer w;
    fed_writer_growing(&w);
    fedserver_task_text_write(task, &w);
    assert_fed_ok(w.status);
    char *text = strdup((const char *)w.data);
    assert_non_null(text);
    fed_writer_free(&w);
    return text;
}

static void read_back(const char *text, fedserver_task *task) {
    fed_error err = {0};
    memset(task, 0xa5, sizeof *task);
    assert_fed_ok_err(fedserver_task_text_read(1, text, strlen(text), task, &err));
}

static void draw_text(fed_rng *rng, char *dst, size_t size) {
    static const char *const pieces[] = {
        "a", "\"", "\\", "/", "\n", "\x01", "\x7f", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x99\x82",
        ":", ",",  "{",  "0"};
    size_t len = 0, most = fed_rng_below(rng, (uint32_t)size);
    dst[0] = '\0';
    for (;;) {
        const char *piece = pieces[fed_rng_below(rng, sizeof pieces / sizeof pieces[0])];
        if (len + strlen(piece) > most) {
            return;
        }
        strcpy(dst + len, piece);
        len += strlen(piece);
    }
}

static void draw_object(fed_rng *rng, char *dst, size_t size) {
    dst[0] = '\0';
    if (fed_rng_below(rng, 2) == 1) {
        snprintf(dst, size, "{\"b\":%u,\"a\":[\"\\\"\xc3\xa9\\n\",null]}",
                 (unsigned)fed_rng_u32(rng));
    }
}

static float draw_float(fed_rng *rng) {
    float x;
    do {
        const uint32_t bits = fed_rng_u32(rng) >> 1; /* the value must not be negative */
        memcpy(&x, &bits, sizeof x);
    } while (!isfinite(x));
    return x;
}

static double draw_double(fed_rng *rng) {
    double x;
    do {
        const uint64_t bits = fed_rng_u64(rng) >> 1;
        memcpy(&x, &bits, sizeof x);
    } while (!isfinite(x));
    return x;
}

static void draw_value(fed_rng *rng, const fedserver_field *field, void *member) {
    switch (field->type) {
    case FEDSERVER_CHARS:
        if (field->kind == FEDSERVER_OBJECT) {
            draw_object(rng, member, field->size);
        } else {
            draw_text(rng, member, field->size);
        }
        break;
    case FEDSERVER_U32:
        *(uint32_t *)member =
            field->kind == FEDSERVER_CHOICE ? fed_rng_below(rng, 3) : fed_rng_u32(rng);
        break;
    case FEDSERVER_U64:
        *(uint64_t *)member = fed_rng_u64(rng);
        break;
    case FEDSERVER_I64:
        *(int64_t *)member = (int64_t)(fed_rng_u64(rng) >> 14);
        break;
    case FEDSERVER_F32:
        *(float *)member = draw_float(rng);
        break;
    case FEDSERVER_F64:
        *(double *)member = draw_double(rng);
        break;
    case FEDSERVER_OTHER:
        break;
    }
}

static void draw_task(fed_rng *rng, fedserver_task *task) {
    memset(task, 0, sizeof *task);
    task->phase_count = fed_rng_below(rng, FEDSERVER_PHASES + 1);
    for (fedserver_field_id id = 0; id < FEDSERVER_FIELDS; id++) {
        const fedserver_field *field = &fedserver_fields[id];
        if (fedserver_field_kept(field)) {
            draw_value(rng, field, (char *)task + field->offset);
        }
        for (uint32_t k = 0; (field->where & FEDSERVER_IN_PHASE) && k < task->phase_count; k++) {
            draw_value(rng, field, (char *)&task->phases[k] + field->phase_offset);
        }
    }
}

static void assert_same_value(const fedserver_field *field, const char *a, const char *b) {
    const bool same = field->type == FEDSERVER_CHARS   ? strcmp(a, b) == 0
                      : field->type == FEDSERVER_OTHER ? true
                                                       : memcmp(a, b, field->size) == 0;
    if (!same) {
        fail_msg("the key %s was read back with another value", field->name);
    }
}

static void assert_same_task(const fedserver_task *a, const fedserver_task *b) {
    assert_int_equal(a->phase_count, b->phase_count);
    for (fedserver_field_id id = 0; id < FEDSERVER_FIELDS; id++) {
        const fedserver_field *field = &fedserver_fields[id];
        if (fedserver_field_kept(field)) {
            assert_same_value(field, (const char *)a + field->offset,
                              (const char *)b + field->offset);
        }
        for (uint32_t k = 0; (field->where & FEDSERVER_IN_PHASE) && k < a->phase_count; k++) {
            assert_same_value(field, (const char *)&a->phases[k] + field->phase_offset,
                              (const char *)&b->phases[k] + field->phase_offset);
        }
    }
}

FED_TEST(any_task_is_read_as_it_was_written) {
    fed_rng rng;
    fed_rng_init(&rng, 20, 0, 0);
    for (int k = 0; k < 300; k++) {
        static fedserver_task task, again;
        draw_task(&rng, &task);
        char *text = text_of(&task);
        read_back(text, &again);
        assert_same_task(&task, &again);
        char *second = text_of(&again);
        assert_string_equal(second, text);
        free(second);
        free(text);
    }
}

static const char file[] =
    "{\"name\": \"n\", \"model\": \"lr\", \"rounds\": 100, \"goal\": 10, \"deadline_s\": 0.25,"
    " \"optimizer\": \"momentum\", \"phases\": [{\"round\": 7, \"learning_rate\": 0.5}]}";

static const char canonical[] =
    "{\"name\":\"n\",\"model\":\"input 784 | dense 10\",\"seed\":1,\"codec_up\":\"sbc:p=0.01\","
    "\"codec_down\":\"3lc:s=1+entropy\",\"small_tensor\":1024,\"local_steps\":10,\"batch\":8,"
    "\"optimizer\":\"momentum\",\"learning_rate\":0.01,\"strategy\":\"fedavg\",\"rounds\":100,"
    "\"cohort\":13,\"goal\":10,\"minimum\":1,\"deadline_s\":0.25,\"staleness\":0,"
    "\"device_share\":0.5,\"selection\":\"uniform\",\"priority\":5,\"personal_steps\":0,"
    "\"holdout\":0,"
    "\"phases\":[{\"round\":7,"
    "\"codec_up\":\"sbc:p="
    "0.01\","
    "\"codec_down\":\"3lc:s=1+entropy\",\"local_steps\":10,\"batch\":8,\"optimizer\":\"momentum\","
    "\"learning_rate\":0.5}]}";

/* Stores of released programs contain texts like this one, so all later releases must read it. */
FED_TEST(the_text_is_a_task_file_that_says_everything) {
    static fedserver_config config, again;
    fed_error err = {0};
    assert_fed_ok_err(fedserver_config_parse("t.json", file, strlen(file), &config, &err));
    char *text = text_of(&config.task);
    assert_string_equal(text, canonical);
    assert_fed_ok_err(fedserver_config_parse("t.json", text, strlen(text), &again, &err));
    assert_same_task(&config.task, &again.task);
    free(text);
}

/* A text from a store whose release did not know these keys. */
FED_TEST(a_key_that_the_text_lacks_has_its_default) {
    static fedserver_task task;
    read_back("{\"model\":\"m\",\"rounds\":3,\"phases\":[{\"round\":2,\"batch\":5}]}", &task);
    assert_string_equal(task.name, "");
    assert_string_equal(task.wire.codec_up, "sbc:p=0.01");
    assert_true(task.device_share == 0.5 && task.wire.learning_rate == 0.01f);
    assert_int_equal(task.rules.deadline_ms, 600000);
    assert_int_equal(task.selection, FEDSERVER_SELECT_UNIFORM);
    assert_int_equal(task.phase_count, 1);
    assert_int_equal(task.phases[0].batch, 5);
    assert_int_equal(task.phases[0].local_steps, 10);
    assert_int_equal(task.state, 0);
}

FED_TEST(a_text_that_makes_no_sense_is_refused) {
    static const struct {
        const char *text;
        fed_status status;
        const char *words;
    } cases[] = {
        {"", FED_EFORMAT, "task 9:1"},
        {"[]", FED_EFORMAT, "JSON object"},
        {"{\"model\":\"m\"}", FED_EFORMAT, "key \"rounds\" is missing"},
        {"{\"model\":\"m\",\"rounds\":\"3\"}", FED_EFORMAT, "not an integer"},
        {"{\"model\":\"m\",\"rounds\":3,\"phases\":[7]}", FED_EFORMAT, "a list of something else"},
        {"{\"model\":\"m\",\"rounds\":3,\"wings\":2}", FED_EVERSION, "\"wings\""},
        {"{\"model\":\"m\",\"rounds\":3,\"phases\":[{\"round\":2,\"wings\":2}]}", FED_EVERSION,
         "\"phases[0].wings\""},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        static fedserver_task task;
        fed_error err = {0};
        assert_fed_status(
            fedserver_task_text_read(9, cases[k].text, strlen(cases[k].text), &task, &err),
            cases[k].status);
        assert_fed_says(err, cases[k].words);
    }
}

/* A file name may have any bytes, but the text must be UTF-8. */
FED_TEST(a_name_that_is_no_utf_8_is_kept_readable) {
    static fedserver_task task, again;
    task = (fedserver_task){.name = "a\xff"
                                    "b"};
    char *text = text_of(&task);
    read_back(text, &again);
    assert_string_equal(again.name, "a?b");
    free(text);
}
