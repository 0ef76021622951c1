/* Reads a table: a sample a line, numbers separated by commas, one column the class or target. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fed/bytes.h"
#include "fed/hash.h"
#include "fed/params.h"
#include "fedclient/train/data/input.h"
#include "fedtrain/dataset.h"

enum { FIELD_BYTES = 256, COLUMNS = 65536 };

typedef struct class_name {
    const uint8_t *at;
    size_t len;
} class_name;

typedef struct table {
    const fedtrain_input *file;
    const uint8_t *next, *end; /* start of the next line; end of the file */
    const uint8_t *at, *stop; /* next byte of the line, NULL after the last field; the line's end */
    size_t line, column;      /* of the current field, counted from 1, for errors */
    char field[FIELD_BYTES]; /* the current field without blanks and quotes around it, terminated */
    size_t columns;
    size_t label;              /* the label's column, from 1 */
    bool targets;              /* the label is a number to predict, not a class */
    const class_name *classes; /* [class_count] */
    size_t class_count;        /* 0: labels are numbers */
    uint64_t digest;           /* of the classes' names; 0: labels are numbers */
    fed_writer values, labels; /* float32[rows, columns - 1]; uint8[rows], targets: float32[rows] */
    fed_error *err;
} table;

static bool is_blank(uint8_t byte) {
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static fed_status fail_field(table *t, const char *what) {
    return fed_fail(t->err, FED_EFORMAT, "%s: line %zu, column %zu: \"%.40s\": %s", t->file->path,
                    t->line, t->column, t->field, what);
}

/* Go to the next line that is not blank; false at the end of the file. */
static bool next_line(table *t) {
    while (t->next < t->end) {
        const uint8_t *end = memchr(t->next, '\n', (size_t)(t->end - t->next));
        t->at = t->next;
        t->stop = end != NULL ? end : t->end;
        t->next = end != NULL ? end + 1 : t->end;
        t->line++;
        t->column = 0;
        while (t->at < t->stop && is_blank(*t->at)) {
            t->at++;
        }
        while (t->at < t->stop && is_blank(t->stop[-1])) {
            t->stop--;
        }
        if (t->at < t->stop) {
            return true;
        }
    }
    return false;
}

/* Read the quoted field at t->at into t->field. Two quotes in the field stand for one. */
static fed_status read_quoted(table *t, size_t *len) {
    t->at++;
    for (;; t->at++) {
        if (t->at == t->stop) {
            return fail_field(t, "the quotes are not closed in this line");
        }
        if (*t->at == '"' && (++t->at == t->stop || *t->at != '"')) {
            break;
        }
        if (*len + 1 < FIELD_BYTES) {
            t->field[(*len)++] = (char)*t->at;
        }
    }
    while (t->at < t->stop && is_blank(*t->at)) {
        t->at++;
    }
    if (t->at < t->stop && *t->at != ',') {
        return fail_field(t, "something stands behind the closing quotes: write a comma");
    }
    return FED_OK;
}

static void read_plain(table *t, size_t *len) {
    for (; t->at < t->stop && *t->at != ','; t->at++) {
        if (*len + 1 < FIELD_BYTES) {
            t->field[(*len)++] = (char)*t->at;
        }
    }
    while (*len > 0 && is_blank((uint8_t)t->field[*len - 1])) {
        (*len)--;
    }
}

/* Read the line's next field into t->field; t->at is NULL if it was the last one. */
static fed_status next_field(table *t) {
    size_t len = 0;
    memset(t->field, 0, sizeof t->field);
    t->column++;
    while (t->at < t->stop && is_blank(*t->at)) {
        t->at++;
    }
    if (t->at < t->stop && *t->at == '"') {
        FED_TRY(read_quoted(t, &len));
    } else {
        read_plain(t, &len);
    }
    t->field[len] = '\0';
    if (len + 1 == FIELD_BYTES) {
        return fail_field(t, "the field is too long for a number or a class");
    }
    if (strlen(t->field) != len) {
        return fail_field(t, "the field has a byte of value 0: is this a text file?");
    }
    if (t->column > COLUMNS) {
        return fail_field(t, "this line has more than 65536 columns");
    }
    t->at = t->at < t->stop ? t->at + 1 : NULL;
    return FED_OK;
}

static bool parse_number(const char *text, double *value) {
    return fed_text_number(text, value) && fabs(*value) <= FLT_MAX;
}

/* The number of the class of that name; class_count if there is none. */
static size_t find_class(const table *t, class_name name) {
    size_t k = 0;
    while (k < t->class_count &&
           (t->classes[k].len != name.len || memcmp(t->classes[k].at, name.at, name.len) != 0)) {
        k++;
    }
    return k;
}

static size_t class_of_field(const table *t) {
    return find_class(t, (class_name){(const uint8_t *)t->field, strlen(t->field)});
}

/* Facts about the fields of the first line. */
typedef struct first_line {
    size_t names;   /* fields that are neither a number, nor a class, nor a missing value */
    size_t missing; /* the first column without a value, from 1; 0: none */
    size_t label;   /* the first column with the label's name, from 1; 0: none */
    bool counts;    /* the fields are 0, 1, 2, ..., or 1, 2, 3, ... */
} first_line;

/* Does the field say that a value is missing? */
static bool is_missing(const char *field) {
    static const char *const words[] = {"", "NA", "N/A", "nan", "null", "None", "?", "-"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(field, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

static fed_status scan_first_line(table *t, const char *label, first_line *found) {
    double start = 0;
    *found = (first_line){.counts = true};
    while (t->at != NULL) {
        double number = -1;
        FED_TRY(next_field(t));
        const bool is_number = parse_number(t->field, &number);
        if (!is_number && class_of_field(t) == t->class_count) {
            const bool missing = is_missing(t->field);
            found->names += !missing;
            found->missing = missing && found->missing == 0 ? t->column : found->missing;
        }
        start = t->column == 1 ? number : start;
        found->counts = found->counts && is_number && (start == 0 || start == 1) &&
                        number == start + (double)(t->column - 1);
        if (found->label == 0 && strcmp(t->field, label) == 0) {
            found->label = t->column;
        }
    }
    t->columns = t->column;
    return FED_OK;
}

/* Refuse a single column. If no field is a name, also refuse a missing value, and fields that are
 * the columns' numbers: such a line may be a header as well as a sample. */
static fed_status check_first_line(table *t, const first_line *found) {
    if (t->columns < 2) {
        return fail_field(t, "one column only: a sample needs a label and a feature at least, with "
                             "a comma between them");
    }
    if (found->names > 0) {
        return FED_OK;
    }
    if (found->missing > 0) {
        return fed_fail(t->err, FED_EFORMAT,
                        "%s: line %zu, column %zu: a value is missing: write a number, or, if the "
                        "line is a header, a name",
                        t->file->path, t->line, found->missing);
    }
    if (found->counts && t->columns > 3) {
        return fed_fail(
            t->err, FED_EFORMAT,
            "%s: line %zu numbers the columns, so it may be a header or a sample: name a "
            "column there, or, if the line is a sample, write a header before it",
            t->file->path, t->line);
    }
    return FED_OK;
}

static fed_status find_label(table *t, const char *label, const first_line *found) {
    const bool first = strcmp(label, "first") == 0, header = found->names > 0;
    const size_t named = header ? found->label : 0;
    if (first || strcmp(label, "last") == 0) {
        t->label = first ? 1 : t->columns;
        return named == 0 || named == t->label
                   ? FED_OK
                   : fed_fail(t->err, FED_EFORMAT,
                              "%s: line %zu: \"%s\" is the name of column %zu, and means the %s "
                              "column, too: rename that column",
                              t->file->path, t->line, label, named, label);
    }
    if (named == 0) {
        return fed_fail(t->err, FED_EFORMAT, "%s: line %zu: %s \"%.40s\": write first, last or %s",
                        t->file->path, t->line,
                        header ? "the header has no column" : "there is no header that could name",
                        label, header ? "a name that is there" : "add a header");
    }
    t->label = named;
    return FED_OK;
}

/* Count the columns, decide whether the line is a header, and find the label's column. */
static fed_status read_first_line(table *t, const char *label) {
    const uint8_t *start = t->next;
    first_line found;
    if (!next_line(t)) {
        return fed_fail(t->err, FED_EFORMAT, "%s: the file has no line with numbers",
                        t->file->path);
    }
    FED_TRY(scan_first_line(t, label, &found));
    FED_TRY(check_first_line(t, &found));
    FED_TRY(find_label(t, label, &found));
    if (found.names == 0) { /* no header: read this line again, as a sample */
        t->next = start;
        t->line = 0;
    }
    return FED_OK;
}

static fed_status add_class(table *t) {
    const size_t k = class_of_field(t);
    if (k == t->class_count) {
        return fail_field(t, "this class is not in classes.txt: add a line for it behind the "
                             "others, on every device");
    }
    fed_write_u8(&t->labels, (uint8_t)k);
    return t->labels.status;
}

static fed_status add_field(table *t) {
    double number;
    if (t->column == t->label && t->class_count > 0) {
        return add_class(t);
    }
    if (!parse_number(t->field, &number)) {
        return fail_field(t, t->field[0] == '\0' ? "this field is empty: write a number"
                                                 : "not a number that a float can hold");
    }
    if (t->column == t->label && !t->targets) {
        if (!(number >= 0 && number < FEDTRAIN_CLASSES) || number != floor(number)) {
            return fail_field(t, "the label must be a whole number from 0 to 255");
        }
        fed_write_u8(&t->labels, (uint8_t)number);
        return t->labels.status;
    }
    const float value = (float)number;
    fed_writer *to = t->column == t->label ? &t->labels : &t->values;
    fed_write_bytes(to, &value, sizeof value);
    return to->status;
}

static fed_status read_row(table *t) {
    while (t->at != NULL) {
        FED_TRY(next_field(t));
        if (t->column > t->columns) {
            break;
        }
        FED_TRY(add_field(t));
    }
    if (t->column != t->columns) {
        return fed_fail(t->err, FED_EFORMAT,
                        "%s: line %zu has %s than the %zu columns of the first", t->file->path,
                        t->line, t->column > t->columns ? "more" : "fewer", t->columns);
    }
    return FED_OK;
}

static fed_status read_table(table *t, const char *label) {
    FED_TRY(read_first_line(t, label));
    while (next_line(t)) {
        FED_TRY(read_row(t));
    }
    if (t->labels.len == 0) {
        return fed_fail(t->err, FED_EFORMAT,
                        "%s: line %zu: nothing follows the header: write one sample a line",
                        t->file->path, t->line);
    }
    return FED_OK;
}

/* Read the names of the classes, one a line; blanks around names and blank lines are skipped. */
static fed_status read_classes(const fedtrain_input *file, class_name classes[FEDTRAIN_CLASSES],
                               size_t *count, fed_error *err) {
    const uint8_t *data = file->bytes.data;
    table lines = {.file = file, .next = data, .end = data + file->bytes.len, .classes = classes};
    for (*count = 0; next_line(&lines); lines.class_count = *count) {
        const class_name name = {lines.at, (size_t)(lines.stop - lines.at)};
        const size_t same = find_class(&lines, name);
        if (same < *count) {
            return fed_fail(err, FED_EFORMAT,
                            "%s: line %zu: \"%.*s\" is the name of class %zu already: delete one "
                            "of the lines, on every device",
                            file->path, lines.line, (int)(name.len < 40 ? name.len : 40),
                            (const char *)name.at, same);
        }
        if (*count == FEDTRAIN_CLASSES) {
            return fed_fail(err, FED_EFORMAT,
                            "%s: line %zu: this is more than the %d classes that are possible",
                            file->path, lines.line, FEDTRAIN_CLASSES);
        }
        classes[(*count)++] = name;
    }
    return *count > 0
               ? FED_OK
               : fed_fail(err, FED_EFORMAT,
                          "%s: the file has no names of classes: write one a line", file->path);
}

/* Give what was read to the set, which then owns the memory of the values and of the targets. */
static fed_status fill_set(table *t, fedtrain_dataset *set) {
    const size_t features = t->columns - 1;
    const size_t rows = t->values.len / (features * sizeof(float));
    if (t->targets) {
        set->target = (float *)(void *)t->labels.data;
        fed_writer_growing(&t->labels);
    } else {
        FED_TRY(fedtrain_dataset_add_labels(set, t->labels.data, rows, 1));
    }
    fedtrain_bytes bytes = {.owner = FEDTRAIN_HEAP, .data = t->values.data, .len = t->values.len};
    set->shape = (fed_shape){(uint32_t)features, 1, 1};
    set->is_float = true;
    set->class_names = t->digest;
    fedtrain_dataset_add_block(set, &bytes, 0, rows, features * sizeof(float));
    fed_writer_growing(&t->values);
    return FED_OK;
}

static fed_status parse(table *t, const char *label, fedtrain_dataset *set) {
    t->next = t->file->bytes.data;
    t->end = t->next + t->file->bytes.len;
    fed_writer_growing(&t->values);
    fed_writer_growing(&t->labels);
    fed_status status = read_table(t, label);
    if (status == FED_OK) {
        status = fill_set(t, set);
    }
    if (status == FED_ENOMEM) {
        status = fed_fail(t->err, status, "out of memory for the table of %s", t->file->path);
    }
    fed_writer_free(&t->values);
    fed_writer_free(&t->labels);
    return status;
}

/* Compute the digest of the names, each with a line feed after it. It is never 0. */
static fed_status digest_names(const class_name *names, size_t count, uint64_t *digest,
                               fed_error *err) {
    fed_writer text;
    fed_writer_growing(&text);
    for (size_t k = 0; k < count; k++) {
        fed_write_bytes(&text, names[k].at, names[k].len);
        fed_write_u8(&text, '\n');
    }
    const fed_status status = text.status;
    if (status == FED_OK) {
        *digest = fed_digest_bytes(text.data, text.len);
        *digest += *digest == 0;
    }
    fed_writer_free(&text);
    return status == FED_OK ? FED_OK
                            : fed_fail(err, status, "out of memory for the names of the classes");
}

fed_status fedtrain_csv_parse(const fedtrain_input *file, const char *label,
                              const fedtrain_input *classes, fedtrain_dataset *set,
                              fed_error *err) {
    class_name names[FEDTRAIN_CLASSES];
    table t = {.file = file, .classes = names, .err = err};
    if (classes != NULL) {
        FED_TRY(read_classes(classes, names, &t.class_count, err));
        FED_TRY(digest_names(names, t.class_count, &t.digest, err));
    }
    return parse(&t, label, set);
}

fed_status fedtrain_csv_parse_targets(const fedtrain_input *file, const char *target,
                                      fedtrain_dataset *set, fed_error *err) {
    table t = {.file = file, .targets = true, .err = err};
    return parse(&t, target, set);
}
