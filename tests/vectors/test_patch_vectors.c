/*
 * Golden patches: vectors/patches/NAME.txt. Never changed, only added to; decode.py, which shares
 * no code with the library, reads them too.
 *
 * A file has comments (#) and the words from, to and patch. Behind the first two stand the values'
 * bits as eight hexadecimal digits, behind from "none" for nothing; behind patch its bytes as two.
 * "COUNT*" before any of them is a repetition.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <dirent.h>

#include "fed/file.h"
#include "fedcodec/patch.h"

enum { VALUES = 70000, BYTES = 4 * VALUES };

typedef struct list {
    uint32_t at[BYTES];
    size_t len;
} list;

typedef struct vector {
    const char *name;
    bool none;
    list from, to, patch;
} vector;

static void add_word(vector *v, list *l, const char *word) {
    const char *star = strchr(word, '*');
    char *end;
    unsigned long count = star != NULL ? strtoul(word, NULL, 10) : 1;
    unsigned long value = strtoul(star != NULL ? star + 1 : word, &end, 16);
    if (l == NULL || *end != '\0' || l->len + count > BYTES) {
        fail_msg("%s: bad word \"%s\"", v->name, word);
    }
    for (; count > 0; count--) {
        l->at[l->len++] = (uint32_t)value;
    }
}

static void parse_line(vector *v, char *line, list **current) {
    char *rest = NULL;
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (strcmp(word, "from") == 0) {
            *current = &v->from;
        } else if (strcmp(word, "to") == 0) {
            *current = &v->to;
        } else if (strcmp(word, "patch") == 0) {
            *current = &v->patch;
        } else if (strcmp(word, "none") == 0) {
            v->none = true;
        } else {
            add_word(v, *current, word);
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
    static float from[VALUES], to[VALUES];
    static uint8_t patch[BYTES];
    const size_t n = v->to.len;
    assert_true(n <= VALUES && (v->none || v->from.len == n));
    memset(from, 0, sizeof from);
    memcpy(from, v->from.at, v->from.len * sizeof *from);
    memcpy(to, v->to.at, n * sizeof *to);
    for (size_t k = 0; k < v->patch.len; k++) {
        patch[k] = (uint8_t)v->patch.at[k];
    }
    fed_writer w;
    fed_writer_growing(&w);
    assert_fed_ok(fedcodec_patch_write(v->none ? NULL : from, to, n, &w));
    if (w.len != v->patch.len || memcmp(w.data, patch, w.len) != 0) {
        fail_msg("%s: it is now written in another way", v->name);
    }
    assert_fed_ok(fedcodec_patch_apply(patch, v->patch.len, from, n));
    assert_memory_equal(from, to, n * sizeof *to);
    fed_writer_free(&w);
}

static void old_patches_are_read_and_written_as_they_always_were(void **state) {
    (void)state;
    const char *folder = FED_SOURCE_DIR "/tests/vectors/patches";
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
        v.name = entry->d_name;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        read_vector(path, &v);
        check_vector(&v);
        count++;
    }
    closedir(dir);
    assert_true(count >= 6); /* none may be lost */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_patches_are_read_and_written_as_they_always_were),
    };
    return cmocka_run_group_tests_name("patch vectors", tests, NULL, NULL);
}
