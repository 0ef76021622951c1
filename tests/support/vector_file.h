/* Files of golden vectors: fields by name, each with numbers or a text. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_VECTOR_FILE_H
#define FED_VECTOR_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file has comments (lines that begin with #) and fields. A field is its name, followed by its
 * numbers or by one word, its text. Numbers are hexadecimal; "COUNT*" before a number repeats it.
 * Names, numbers and texts are separated by spaces and ends of lines. */

enum { VECTOR_WORDS = 1 << 20, VECTOR_NAME = 300 };

typedef struct vector_words {
    uint32_t word[VECTOR_WORDS];
    size_t len;
    bool named; /* the file has this field, perhaps without a value */
} vector_words;

/** A field, and where its value goes: to `words` or to `text`. */
typedef struct vector_field {
    const char *name;
    vector_words *words; /* NULL: the field has a text */
    char *text;
    size_t text_size;
} vector_field;

typedef struct vector_files {
    const char *folder;
    DIR *dir;
} vector_files;

vector_files vector_files_open(const char *folder);

/** Read the next file. Fields that it lacks are empty; an unknown word fails the test. Returns
 * false, and closes the folder, when there are no more files. */
bool vector_files_next(vector_files *files, const vector_field *fields, size_t count,
                       char name[VECTOR_NAME]);

/** Convert the words to bytes. A word that is no byte fails the test. */
void vector_bytes(const char *name, const vector_words *words, uint8_t *bytes);

#endif
