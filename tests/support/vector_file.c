/* Reads files of golden vectors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "vector_file.h"

#include "fed/file.h"
#include "fed_test.h"

static void add_words(vector_words *l, const char *word, const char *file) {
    char *end;
    unsigned long count = 1;
    const char *star = strchr(word, '*');
    if (star != NULL) {
        count = strtoul(word, &end, 10);
        assert_ptr_equal(end, star);
        word = star + 1;
    }
    unsigned long value = strtoul(word, &end, 16);
    if (l == NULL || *end != '\0' || value > UINT32_MAX || l->len + count > VECTOR_WORDS) {
        fail_msg("%s: \"%s\" is no name of a field and no number", file, word);
    }
    for (; count > 0; count--) {
        l->word[l->len++] = (uint32_t)value;
    }
}

static const vector_field *field_named(const vector_field *fields, size_t count, const char *name) {
    for (size_t k = 0; k < count; k++) {
        if (strcmp(fields[k].name, name) == 0) {
            return &fields[k];
        }
    }
    return NULL;
}

static void parse_line(const char *file, const vector_field *fields, size_t count, char *line,
                       vector_words **current) {
    char *rest = NULL;
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        const vector_field *field = field_named(fields, count, word);
        if (field == NULL) {
            add_words(*current, word, file);
        } else if (field->words == NULL) {
            const char *text = strtok_r(NULL, " ", &rest);
            assert_non_null(text);
            snprintf(field->text, field->text_size, "%s", text);
        } else {
            *current = field->words;
            field->words->named = true;
        }
    }
}

static void read_file(const char *path, const char *file, const vector_field *fields,
                      size_t count) {
    uint8_t *text = NULL;
    size_t len;
    fed_error err = {0};
    assert_fed_ok_err(fed_file_read(path, 1 << 20, &text, &len, &err));
    vector_words *current = NULL;
    char *rest = NULL;
    for (char *line = strtok_r((char *)text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] != '#') {
            parse_line(file, fields, count, line, &current);
        }
    }
    free(text);
}

static void clear(const vector_field *fields, size_t count) {
    for (size_t k = 0; k < count; k++) {
        if (fields[k].words == NULL) {
            fields[k].text[0] = '\0';
        } else {
            fields[k].words->len = 0;
            fields[k].words->named = false;
        }
    }
}

vector_files vector_files_open(const char *folder) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    return (vector_files){.folder = folder, .dir = dir};
}

bool vector_files_next(vector_files *files, const vector_field *fields, size_t count,
                       char name[VECTOR_NAME]) {
    const struct dirent *entry = readdir(files->dir);
    while (entry != NULL && strstr(entry->d_name, ".txt") == NULL) {
        entry = readdir(files->dir);
    }
    if (entry == NULL) {
        closedir(files->dir);
        return false;
    }
    char path[1024];
    clear(fields, count);
    snprintf(name, VECTOR_NAME, "%s", entry->d_name);
    snprintf(path, sizeof path, "%s/%s", files->folder, name);
    read_file(path, name, fields, count);
    return true;
}

void vector_bytes(const char *name, const vector_words *words, uint8_t *bytes) {
    for (size_t i = 0; i < words->len; i++) {
        if (words->word[i] > UINT8_MAX) {
            fail_msg("%s: the word %x is no byte", name, words->word[i]);
        }
        bytes[i] = (uint8_t)words->word[i];
    }
}
