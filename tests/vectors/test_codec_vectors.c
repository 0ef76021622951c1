/*
 * Golden messages: vectors/codecs/NAME.txt of one tensor, vectors/envelopes/NAME.txt of a model.
 * The former were made by an independent implementation of docs/codec-formats.md (that of most
 * positions coded by rANS and range is vectors/encode.py: add to its table for more); decode.py
 * also reads the latter. They are never changed, only added to: what was once sent must stay
 * readable.
 *
 * A file has comments (#) and the words spec, input, message, decoded and residual, in envelopes
 * also small, tensors (the sizes) and how many of these are statistics, each followed by its data:
 * floats as the hexadecimal digits of their bits, bytes as two such digits, other numbers in such
 * digits too, any of them with "COUNT*" before it for a repetition.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <dirent.h>
#include <stdbool.h>

#include "fed/file.h"
#include "fedcodec/envelope.h"

enum { WORDS = 1 << 20 };

typedef struct list {
    uint32_t word[WORDS];
    size_t len;
} list;

typedef struct vector {
    char name[300];
    char spec[FEDCODEC_SPEC];
    list small, tensors, statistics; /* of an envelope */
    list input, message, decoded, residual;
} vector;

static void add_words(list *l, const char *word, const char *file) {
    char *end;
    unsigned long count = 1;
    const char *star = strchr(word, '*');
    if (star != NULL) {
        count = strtoul(word, &end, 10);
        assert_ptr_equal(end, star);
        word = star + 1;
    }
    unsigned long value = strtoul(word, &end, 16);
    if (*end != '\0' || value > UINT32_MAX || l->len + count > WORDS) {
        fail_msg("%s: bad word \"%s\"", file, word);
    }
    for (; count > 0; count--) {
        l->word[l->len++] = (uint32_t)value;
    }
}

static void parse_line(vector *v, char *line, list **current) {
    char *rest = NULL;
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (strcmp(word, "spec") == 0) {
            snprintf(v->spec, sizeof v->spec, "%s", strtok_r(NULL, " ", &rest));
        } else if (strcmp(word, "small") == 0) {
            *current = &v->small;
        } else if (strcmp(word, "tensors") == 0) {
            *current = &v->tensors;
        } else if (strcmp(word, "statistics") == 0) {
            *current = &v->statistics;
        } else if (strcmp(word, "input") == 0) {
            *current = &v->input;
        } else if (strcmp(word, "message") == 0) {
            *current = &v->message;
        } else if (strcmp(word, "decoded") == 0) {
            *current = &v->decoded;
        } else if (strcmp(word, "residual") == 0) {
            *current = &v->residual;
        } else {
            assert_non_null(*current);
            add_words(*current, word, v->name);
        }
    }
}

static void read_vector(const char *path, vector *v) {
    uint8_t *text = NULL;
    size_t len;
    fed_error err = {0};
    assert_fed_ok_err(fed_file_read(path, 1 << 20, &text, &len, &err));
    list *current = NULL;
    char *rest = NULL;
    for (char *line = strtok_r((char *)text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] != '#') {
            parse_line(v, line, &current);
        }
    }
    free(text);
}

static void assert_floats(const vector *v, const char *what, const float *x, const list *wanted) {
    for (size_t i = 0; i < wanted->len; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        if (bits != wanted->word[i]) {
            fail_msg("%s: %s[%zu] is %08x instead of %08x", v->name, what, i, bits,
                     wanted->word[i]);
        }
    }
}

static void take_message(const vector *v, uint8_t *message) {
    for (size_t i = 0; i < v->message.len; i++) {
        message[i] = (uint8_t)v->message.word[i];
    }
}

static void check_vector(const vector *v) {
    fedcodec codec;
    fed_error err = {0};
    size_t n = v->input.len, len = 0;
    static float residual[WORDS], y[WORDS];
    static uint8_t message[WORDS];
    assert_fed_ok_err(fedcodec_parse(v->spec, &codec, &err));
    take_message(v, message);
    assert_fed_ok(fedcodec_decode(codec.vtable, message, v->message.len, y, n));
    assert_floats(v, "decoded", y, &v->decoded);

    memcpy(residual, v->input.word, n * sizeof *residual);
    size_t cap = fedcodec_bound(&codec, n);
    uint8_t *dst = malloc(cap + 1);
    void *work = malloc(fedcodec_work_size(&codec, n) + 1);
    assert_true(dst != NULL && work != NULL);
    assert_fed_ok(fedcodec_encode(&codec, residual, NULL, n, work, dst, cap, &len));
    if (len != v->message.len || memcmp(dst, message, len) != 0) {
        fail_msg("%s: the encoder now writes another message", v->name);
    }
    assert_floats(v, "residual", residual, &v->residual);
    free(dst);
    free(work);
}

static void check_envelope(const vector *v) {
    fedcodec codec;
    fed_layout layout;
    fed_error err = {0};
    static float residual[WORDS], y[WORDS];
    static uint8_t message[WORDS];
    uint32_t small = v->small.word[0];
    assert_fed_ok_err(fedcodec_parse(v->spec, &codec, &err));
    take_message(v, message);
    fed_layout_init(&layout);
    for (size_t k = 0; k < v->tensors.len; k++) {
        char name[32];
        snprintf(name, sizeof name, "tensor%zu", k);
        assert_fed_ok(fed_layout_add(&layout, name, 1, &v->tensors.word[k]));
    }
    layout.statistics = v->statistics.len > 0 ? v->statistics.word[0] : 0;
    assert_int_equal(layout.size, v->input.len);
    assert_fed_ok_err(
        fedcodec_envelope_check(message, v->message.len, &layout, &codec, small, NULL, &err));
    assert_fed_ok_err(fedcodec_envelope_decode(message, v->message.len, &layout, y, &err));
    assert_floats(v, "decoded", y, &v->decoded);

    memcpy(residual, v->input.word, layout.size * sizeof *residual);
    void *work = malloc(fedcodec_envelope_work_size(&codec, &layout, small) + 1);
    assert_non_null(work);
    fed_writer w;
    fed_writer_growing(&w);
    assert_fed_ok(fedcodec_envelope_encode(&codec, &layout, small, residual, NULL, work, &w));
    if (w.len != v->message.len || memcmp(w.data, message, w.len) != 0) {
        fail_msg("%s: the encoder now writes another envelope", v->name);
    }
    assert_floats(v, "residual", residual, &v->residual);
    fed_writer_free(&w);
    free(work);
    fed_layout_free(&layout);
}

/* How many there are. */
static size_t check_folder(const char *folder, void (*check)(const vector *v)) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t count = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strstr(entry->d_name, ".txt") == NULL) {
            continue;
        }
        static vector v;
        char path[1024];
        v.small.len = v.tensors.len = v.statistics.len = v.input.len = v.message.len =
            v.decoded.len = v.residual.len = 0;
        snprintf(v.name, sizeof v.name, "%s", entry->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        read_vector(path, &v);
        check(&v);
        count++;
    }
    closedir(dir);
    return count;
}

/* None may be lost. */
static void old_messages_decode_and_encode_as_they_always_did(void **state) {
    (void)state;
    assert_true(check_folder(FED_SOURCE_DIR "/tests/vectors/codecs", check_vector) >= 140);
}

static void old_envelopes_decode_and_encode_as_they_always_did(void **state) {
    (void)state;
    assert_true(check_folder(FED_SOURCE_DIR "/tests/vectors/envelopes", check_envelope) >= 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_messages_decode_and_encode_as_they_always_did),
        cmocka_unit_test(old_envelopes_decode_and_encode_as_they_always_did),
    };
    return cmocka_run_group_tests_name("codec vectors", tests, NULL, NULL);
}
