/* Reads files of golden vectors. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_VECTOR_FILE_H
#define FED_VECTOR_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file has comments (lines that begin with #) and fields, in any order. A field is a name, then
 * hexadecimal numbers or one word of text. "COUNT*NUMBER" repeats a number. Spaces and line ends
 * separate. */

enum { VECTOR_WORDS = 1 << 20, VECTOR_NAME = 300 };

typedef struct vector_words {
    uint32_t word[VECTOR_WORDS];
    size_t len;
    bool named;
} vector_words;

/** A field, and where to write its value. */
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

/** Read the next file. Missing fields become empty; an unknown name fails the test. Returns false
 * after the last file. */
bool vector_files_next(vector_files *files, const vector_field *fields, size_t count,
                       char name[VECTOR_NAME]);

/** Convert the words to bytes. A word above 255 fails the test. */
void vector_bytes(const char *name, const vector_words *words, uint8_t *bytes);

#endif
