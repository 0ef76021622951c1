/* Files of golden messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec_vectors.h"

#include <dirent.h>

#include "fed/file.h"
#include "fed_test.h"

static void add_words(codec_words *l, const char *word, const char *file) {
    char *end;
    unsigned long count = 1;
    const char *star = strchr(word, '*');
    if (star != NULL) {
        count = strtoul(word, &end, 10);
        assert_ptr_equal(end, star);
        word = star + 1;
    }
    unsigned long value = strtoul(word, &end, 16);
    if (*end != '\0' || value > UINT32_MAX || l->len + count > CODEC_VECTOR_WORDS) {
        fail_msg("%s: bad word \"%s\"", file, word);
    }
    for (; count > 0; count--) {
        l->word[l->len++] = (uint32_t)value;
    }
}

static void parse_line(codec_vector *v, char *line, codec_words **current) {
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

static void read_vector(const char *path, codec_vector *v) {
    uint8_t *text = NULL;
    size_t len;
    fed_error err = {0};
    assert_fed_ok_err(fed_file_read(path, 1 << 20, &text, &len, &err));
    codec_words *current = NULL;
    char *rest = NULL;
    for (char *line = strtok_r((char *)text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] != '#') {
            parse_line(v, line, &current);
        }
    }
    free(text);
}

void assert_vector_floats(const codec_vector *v, const char *what, const float *x,
                          const codec_words *wanted) {
    for (size_t i = 0; i < wanted->len; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        if (bits != wanted->word[i]) {
            fail_msg("%s: %s[%zu] is %08x instead of %08x", v->name, what, i, bits,
                     wanted->word[i]);
        }
    }
}

void codec_vector_message(const codec_vector *v, uint8_t *message) {
    for (size_t i = 0; i < v->message.len; i++) {
        message[i] = (uint8_t)v->message.word[i];
    }
}

size_t codec_vectors_each(const char *folder, void (*check)(const codec_vector *v)) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t count = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strstr(entry->d_name, ".txt") == NULL) {
            continue;
        }
        static codec_vector v;
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
