/* A text file means the same with other line ends, with a byte order mark, and with blanks at line
 * ends where blanks don't count. UTF-16 is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "deploy/sim/conditions/presence.h"
#include "deploy/sim/scenario/scenario.h"
#include "fed/arch.h"
#include "fed/bytes.h"
#include "fed/file.h"
#include "fedserver/identity/certificates.h"
#include "fedserver/task/config.h"
#include "fedtrain/dataset.h"
#include "fedtrain/text.h"

typedef struct form {
    const char *name, *mark, *line_end;
    size_t mark_len, before, after; /* before, after: zero bytes around each byte of the text */
    bool blanks;
} form;

static const form forms[] = {
    {"LF", "", "\n", 0, 0, 0, false},
    {"a mark", "\xef\xbb\xbf", "\n", 3, 0, 0, false},
    {"CR LF", "", "\r\n", 0, 0, 0, false},
    {"a mark and CR LF", "\xef\xbb\xbf", "\r\n", 3, 0, 0, false},
    {"CR", "", "\r", 0, 0, 0, false},
    {"blanks", "", " \t\n", 0, 0, 0, true},
    {"a mark, blanks and CR LF", "\xef\xbb\xbf", " \t\r\n", 3, 0, 0, true},
    {"UTF-16, little-endian", "\xff\xfe", "\r\n", 2, 0, 1, false},
    {"UTF-16, big-endian", "\xfe\xff", "\r\n", 2, 1, 0, false},
    {"UTF-16, little-endian without a mark", "", "\n", 0, 0, 1, false},
    {"UTF-16, big-endian without a mark", "", "\n", 0, 1, 0, false},
};

enum { FORMS = sizeof forms / sizeof forms[0], FORM_BYTES = 1000 };

static fed_status read_set(const char *folder, fed_writer *w, fed_error *err) {
    fedtrain_dataset set;
    FED_TRY(fedtrain_dataset_open("csv:label=kind", folder, "train", &set, err));
    for (uint32_t k = 0; k < set.count; k++) {
        float x[2];
        uint32_t label;
        assert_int_equal(set.shape.c, 2);
        fedtrain_dataset_gather(&set, &k, 1, x, &label);
        fed_write_printf(w, "%g %g: %u; ", (double)x[0], (double)x[1], label);
    }
    fedtrain_dataset_free(&set);
    return FED_OK;
}

static fed_status read_classes(const char *folder, fed_writer *w, fed_error *err) {
    static const char rows[] = "kind,a,b\nlow,1,2\nhigh,3,4\nmid,5,6\n";
    fed_test_put(folder, "train.csv", rows, sizeof rows - 1);
    return read_set(folder, w, err);
}

static fed_status read_tokens(const char *corpus, const char *folder, fed_writer *w,
                              fed_error *err) {
    fedtrain_text text;
    FED_TRY(fedtrain_text_open(corpus, folder, "train", NULL, &text, err));
    for (size_t k = 0; k < text.count; k++) {
        fed_write_printf(w, "%u ", text.token[k]);
    }
    fedtrain_text_free(&text);
    return FED_OK;
}

static fed_status read_words(const char *folder, fed_writer *w, fed_error *err) {
    return read_tokens("words", folder, w, err);
}

static fed_status read_characters(const char *folder, fed_writer *w, fed_error *err) {
    return read_tokens("chars", folder, w, err);
}

static const char *path_of(const char *folder, const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static fed_status read_task(const char *folder, fed_writer *w, fed_error *err) {
    fedserver_config config;
    FED_TRY(fedserver_config_read(path_of(folder, "task.json"), &config, err));
    fed_write_printf(w, "%s, %u steps", config.task.name, config.task.wire.local_steps);
    return FED_OK;
}

static fed_status read_model(const char *folder, fed_writer *w, fed_error *err) {
    fed_arch arch;
    char model[301];
    snprintf(model, sizeof model, "@%s", path_of(folder, "model.txt"));
    FED_TRY(fed_arch_load(model, &arch, err));
    fed_write_printf(w, "%zu layers, %zu values", arch.layer_count, arch.layout.size);
    fed_arch_free(&arch);
    return FED_OK;
}

static fed_status read_scenario(const char *folder, fed_writer *w, fed_error *err) {
    sim_scenario s = {0};
    const fed_status status = sim_scenario_read(path_of(folder, "scenario.txt"), &s, err);
    if (status == FED_OK) {
        fed_write_printf(w, "%s, %s at line %s", s.value[SIM_CLIENTS], s.value[SIM_DATA],
                         strrchr(s.origin[SIM_DATA], ':'));
    }
    sim_scenario_free(&s);
    return status;
}

static fed_status read_trace(const char *folder, fed_writer *w, fed_error *err) {
    sim_presence presence;
    char spec[320];
    snprintf(spec, sizeof spec, "trace:%s", path_of(folder, "trace.csv"));
    const fed_status status = sim_presence_parse(spec, 2, &presence, err);
    for (size_t k = 0; status == FED_OK && k < presence.condition[0].first[2]; k++) {
        fed_write_printf(w, "to %lld; ", (long long)presence.condition[0].interval[k].to_us);
    }
    sim_presence_free(&presence);
    return status;
}

static fed_status read_token(const char *folder, fed_writer *w, fed_error *err) {
    char token[600];
    FED_TRY(fed_file_read_word(path_of(folder, "token"), token, sizeof token, err));
    fed_write_printf(w, "%s", token);
    return FED_OK;
}

static fed_status read_key(const char *folder, fed_writer *w, fed_error *err) {
    fed_pem pem;
    FED_TRY(fedserver_pem_read(folder, "front.key", &pem, err));
    fed_write_printf(w, "%s", pem.text);
    return FED_OK;
}

static const struct reader {
    const char *file, *text, *wanted;
    fed_status (*read)(const char *folder, fed_writer *w, fed_error *err);
    bool blanks_count;
} readers[] = {
    {"train.csv", "kind,a,b\n1,0.5,7\n0,-3,8\n", "0.5 7: 1; -3 8: 0; ", read_set, false},
    {"classes.txt", "low\nmid\nhigh\n", "1 2: 0; 3 4: 2; 5 6: 1; ", read_classes, false},
    {"train.txt", "a b\nb a\nb\n", "2 1 0 1 2 0 1 0 ", read_words, false},
    {"train.txt", "ab\nb\n", "2 1 0 1 0 ", read_characters, true},
    {"task.json",
     "{\n\"name\": \"t\",\n\"model\": \"input 4 | dense 3\",\n\"local_steps\": 5,\n\"batch\": 8,\n"
     "\"learning_rate\": 0.1,\n\"rounds\": 2,\n\"cohort\": 2,\n\"goal\": 2,\n\"minimum\": 1\n}\n",
     "t, 5 steps", read_task, false},
    {"model.txt", "input 4 # columns\n| dense 3\n", "1 layers, 15 values", read_model, false},
    {"scenario.txt", "# a comment\nclients = 7\ndata = d\n", "7, d at line :3", read_scenario,
     false},
    {"trace.csv", "client,from_s,to_s\n0,1,2\n1,3,4\n", "to 2000000; to 4000000; ", read_trace,
     false},
    {"token", "fed1.abc\n", "fed1.abc", read_token, false},
    {"front.key", "-----BEGIN\nabc\n-----END\n", "-----BEGIN\nabc\n-----END\n", read_key, true},
};

static size_t save(const form *f, const char *text, char bytes[FORM_BYTES]) {
    fed_writer w;
    fed_writer_fixed(&w, bytes, FORM_BYTES);
    fed_write_bytes(&w, f->mark, f->mark_len);
    for (; *text != '\0'; text++) {
        const char one[] = {*text, '\0'};
        for (const char *c = *text == '\n' ? f->line_end : one; *c != '\0'; c++) {
            fed_write_bytes(&w, "", f->before);
            fed_write_bytes(&w, c, 1);
            fed_write_bytes(&w, "", f->after);
        }
    }
    assert_fed_ok(w.status);
    return w.len;
}

static void check(const struct reader *r, const form *f) {
    char folder[256], bytes[FORM_BYTES], got[FORM_BYTES] = "";
    fed_error err = {0};
    fed_writer w;
    fed_writer_fixed(&w, got, sizeof got - 1);
    fed_test_tmpdir(folder, sizeof folder);
    fed_test_put(folder, r->file, bytes, save(f, r->text, bytes));
    const fed_status status = r->read(folder, &w, &err);
    fed_test_rmdir(folder);
    if (f->before + f->after > 0) {
        if (status != FED_EFORMAT ||
            strstr(err.text, "it is in UTF-16; save it as UTF-8") == NULL ||
            strstr(err.text, r->file) == NULL) {
            fail_msg("%s in %s: %s, \"%s\"", r->file, f->name, fed_status_name(status), err.text);
        }
    } else if (status != FED_OK || strcmp(got, r->wanted) != 0) {
        fail_msg("%s with %s: %s, \"%s\", read \"%s\"", r->file, f->name, fed_status_name(status),
                 err.text, got);
    }
}

FED_TEST(a_text_means_the_same_however_an_editor_saved_it) {
    for (size_t k = 0; k < sizeof readers / sizeof readers[0]; k++) {
        for (size_t i = 0; i < FORMS; i++) {
            if (!(forms[i].blanks && readers[k].blanks_count)) {
                check(&readers[k], &forms[i]);
            }
        }
    }
}
