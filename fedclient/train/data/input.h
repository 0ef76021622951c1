/* A data file's bytes, and the parsers that make samples of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_INPUT_H
#define FEDTRAIN_INPUT_H

#include <stdbool.h>

#include "fed/error.h"
#include "fedtrain/file_bytes.h"

/* Defined in fedtrain/dataset.h, text.h and vocabulary.h, which are not needed here. */
struct fedtrain_dataset;
struct fedtrain_text;
struct fedtrain_vocabulary;

enum { FEDTRAIN_PATH = 1024 };

typedef struct fedtrain_input {
    char path[FEDTRAIN_PATH]; /* the file that was read, for error messages */
    fedtrain_bytes bytes;
} fedtrain_input;

/** Map DIRECTORY/name, or if there is none, the same with .gz. A file that begins as gzip does is
 * unpacked. The bytes may be at most `limit`, both packed and unpacked. Owner:
 * fedtrain_bytes_release, or the set that took the bytes. */
fed_status fedtrain_input_open(const char *directory, const char *name, size_t limit,
                               fedtrain_input *input, fed_error *err) FED_CHECKED;

/** Open a file as fedtrain_input_open does, and clean its text by fed_text_clean. A text that needs
 * no cleaning stays mapped. FED_EFORMAT: the text is in UTF-16. */
fed_status fedtrain_input_open_text(const char *directory, const char *name, size_t limit,
                                    fedtrain_input *input, fed_error *err) FED_CHECKED;

/** Free, unmap or just forget the bytes, by bytes->owner; then *bytes is zeroed. */
void fedtrain_bytes_release(fedtrain_bytes *bytes);

/** Unpack gzip data, of one member or several. path is for error messages. */
fed_status fedtrain_gunzip(const char *path, const uint8_t *packed, size_t packed_len, size_t limit,
                           fedtrain_bytes *bytes, fed_error *err) FED_CHECKED;

/* Parsers of untrusted files. `set` is zeroed, or for CIFAR has the samples of earlier files; on
 * failure the caller frees it. An input whose bytes the set keeps is left empty. */
fed_status fedtrain_idx_parse(fedtrain_input *images, const fedtrain_input *labels,
                              struct fedtrain_dataset *set, fed_error *err) FED_CHECKED;

/** Append the samples of a file of records. A record is label_bytes labels, of which the last one
 * is used and must be below `classes`; then 3 x 32 x 32 pixels. */
fed_status fedtrain_cifar_parse(fedtrain_input *file, size_t label_bytes, unsigned classes,
                                struct fedtrain_dataset *set, fed_error *err) FED_CHECKED;

/** Parse a table for classification. label: "first", "last", or a column's name. classes: the file
 * with the names of the classes, one a line, from class 0; NULL: labels are numbers. */
fed_status fedtrain_csv_parse(const fedtrain_input *file, const char *label,
                              const fedtrain_input *classes, struct fedtrain_dataset *set,
                              fed_error *err) FED_CHECKED;

/** Parse a table for regression: the column of this name holds the numbers to predict. */
fed_status fedtrain_csv_parse_targets(const fedtrain_input *file, const char *target,
                                      struct fedtrain_dataset *set, fed_error *err) FED_CHECKED;

typedef struct fedtrain_text_kind {
    bool characters;    /* true: characters; false: words */
    size_t vocabulary;  /* the most words to keep */
    unsigned from, end; /* the part to read: units that begin from / 10 to end / 10 into the file */
} fedtrain_text_kind;

fed_status fedtrain_text_parse(const fedtrain_input *file, const fedtrain_text_kind *kind,
                               const struct fedtrain_vocabulary *words, struct fedtrain_text *text,
                               fed_error *err) FED_CHECKED;

/** Append `count` labels, `stride` bytes apart. fedtrain_dataset_free frees the set's copy. */
fed_status fedtrain_dataset_add_labels(struct fedtrain_dataset *set, const uint8_t *labels,
                                       size_t count, size_t stride) FED_CHECKED;

/** Append a block of samples, whose labels must have been added before. The set takes *bytes. */
void fedtrain_dataset_add_block(struct fedtrain_dataset *set, fedtrain_bytes *bytes, size_t offset,
                                size_t count, size_t stride);

#endif
