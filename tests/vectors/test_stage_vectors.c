/*
 * Golden bytes of the second stages: vectors/stages/NAME.txt. They were made by an independent
 * implementation of docs/codec-formats.md, or by a zstd program, and are never changed, only added
 * to.
 *
 * A file has comments (#) and the words stage, plain and packed, followed by the stage's name or by
 * bytes as two hexadecimal digits, with "COUNT*" before them for a repetition.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <dirent.h>

#include "codecs/stage.h"
#include "fed/file.h"

enum { BYTES = 65536 };

typedef struct list {
    uint8_t byte[BYTES];
    size_t len;
} list;

typedef struct vector {
    char name[300];
    const fedcodec_stage *stage;
    list plain, packed;
} vector;

static void add_bytes(list *l, const char *word, const char *file) {
    char *end;
    unsigned long count = 1;
    const char *star = strchr(word, '*');
    if (star != NULL) {
        count = strtoul(word, &end, 10);
        assert_ptr_equal(end, star);
        word = star + 1;
    }
    unsigned long value = strtoul(word, &end, 16);
    if (*end != '\0' || value > UINT8_MAX || l->len + count > BYTES) {
        fail_msg("%s: bad word \"%s\"", file, word);
    }
    memset(l->byte + l->len, (int)value, count);
    l->len += count;
}

static const fedcodec_stage *stage_named(const char *name) {
    for (size_t k = 0; fedcodec_stage_at(k) != NULL; k++) {
        if (strcmp(fedcodec_stage_at(k)->name, name) == 0) {
            return fedcodec_stage_at(k);
        }
    }
    assert_string_equal(name, "zstd"); /* which a build may lack */
    return NULL;
}

static void parse_line(vector *v, char *line, list **current) {
    char *rest = NULL;
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (strcmp(word, "stage") == 0) {
            v->stage = stage_named(strtok_r(NULL, " ", &rest));
        } else if (strcmp(word, "plain") == 0) {
            *current = &v->plain;
        } else if (strcmp(word, "packed") == 0) {
            *current = &v->packed;
        } else {
            assert_non_null(*current);
            add_bytes(*current, word, v->name);
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

static void check_vector(const vector *v) {
    static uint8_t dst[BYTES];
    if (v->stage == NULL) {
        return;
    }
    size_t len = v->stage->pack(v->plain.byte, v->plain.len, dst, sizeof dst);
    bool is_same = len == v->packed.len && memcmp(dst, v->packed.byte, len) == 0;
    if (!is_same && strcmp(v->stage->name, "zstd") != 0) { /* its bytes are the library's matter */
        fail_msg("%s: it is now packed in another way", v->name);
    }
    assert_fed_ok(v->stage->unpack(v->packed.byte, v->packed.len, dst, v->plain.len));
    assert_memory_equal(dst, v->plain.byte, v->plain.len);
}

static void old_bytes_unpack_and_pack_as_they_always_did(void **state) {
    (void)state;
    const char *folder = FED_SOURCE_DIR "/tests/vectors/stages";
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t count = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strstr(entry->d_name, ".txt") == NULL) {
            continue;
        }
        static vector v;
        char path[1024];
        memset(&v, 0, sizeof v);
        snprintf(v.name, sizeof v.name, "%s", entry->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        read_vector(path, &v);
        check_vector(&v);
        count++;
    }
    closedir(dir);
    assert_true(count >= 9); /* none may be lost */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_bytes_unpack_and_pack_as_they_always_did),
    };
    return cmocka_run_group_tests_name("stage vectors", tests, NULL, NULL);
}
