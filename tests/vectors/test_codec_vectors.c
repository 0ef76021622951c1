/*
 * Golden messages: vectors/codecs/NAME.txt. They were made by an independent implementation of
 * docs/codec-formats.md (that of most positions coded by rANS and range is vectors/encode.py: add
 * to its table for more) and are never changed, only added to: what was once sent must stay
 * readable.
 *
 * A file has comments (#) and the words spec, input, message, decoded and residual, each followed
 * by its data: floats as the hexadecimal digits of their bits, bytes as two such digits, either
 * with "COUNT*" before it for a repetition.
 */
#include "fed_test.h"

#include <dirent.h>
#include <stdbool.h>

#include "fed/file.h"
#include "fedcodec/codec.h"

enum { WORDS = 1 << 20 };

typedef struct list {
    uint32_t word[WORDS];
    size_t len;
} list;

typedef struct vector {
    char name[300];
    char spec[FEDCODEC_SPEC];
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

static void check_vector(const vector *v) {
    fedcodec codec;
    fed_error err = {0};
    size_t n = v->input.len, len = 0;
    static float residual[WORDS], y[WORDS];
    static uint8_t message[WORDS];
    assert_fed_ok_err(fedcodec_parse(v->spec, &codec, &err));
    for (size_t i = 0; i < v->message.len; i++) {
        message[i] = (uint8_t)v->message.word[i];
    }
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

static void old_messages_decode_and_encode_as_they_always_did(void **state) {
    (void)state;
    const char *folder = FED_SOURCE_DIR "/tests/vectors/codecs";
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t count = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strstr(entry->d_name, ".txt") == NULL) {
            continue;
        }
        static vector v;
        char path[1024];
        v.input.len = v.message.len = v.decoded.len = v.residual.len = 0;
        snprintf(v.name, sizeof v.name, "%s", entry->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        read_vector(path, &v);
        check_vector(&v);
        count++;
    }
    closedir(dir);
    assert_true(count >= 138); /* none may be lost */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_messages_decode_and_encode_as_they_always_did),
    };
    return cmocka_run_group_tests_name("codec vectors", tests, NULL, NULL);
}
