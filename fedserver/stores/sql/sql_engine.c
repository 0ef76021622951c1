/* Runs statements on the engine of a handle, and converts between C records and columns. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sql/sql_engine.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const fedserver_engine *engine_of(const void *db) {
    return ((const fedserver_sql_db *)db)->engine;
}

fed_status fedserver_sql_write(void *db, int sql, const fedserver_value *values, int count,
                               fedserver_written *written, fed_error *err) {
    return engine_of(db)->write(db, sql, values, count, written, err);
}

fed_status fedserver_sql_read(void *db, int sql, const fedserver_value *values, int count,
                              fedserver_sql_row *row, fed_error *err) {
    *row = (fedserver_sql_row){.engine = engine_of(db), .db = db};
    return engine_of(db)->read(db, sql, values, count, row, err);
}

fed_status fedserver_sql_first(void *db, int sql, const fedserver_value *values, int count,
                               fedserver_sql_row *row, bool *found, fed_error *err) {
    FED_TRY(fedserver_sql_read(db, sql, values, count, row, err));
    return fedserver_sql_row_next(row, found, err);
}

fed_status fedserver_sql_row_next(fedserver_sql_row *row, bool *found, fed_error *err) {
    return row->engine->next(row, found, err);
}

fed_status fedserver_sql_row_after(fedserver_sql_row *row, fed_status visited, bool *found,
                                   fed_error *err) {
    if (visited != FED_OK) {
        fedserver_sql_row_end(row);
        return visited;
    }
    return fedserver_sql_row_next(row, found, err);
}

void fedserver_sql_row_end(fedserver_sql_row *row) {
    row->engine->end(row);
}

int64_t fedserver_sql_row_int(const fedserver_sql_row *row, int column) {
    return row->engine->integer(row, column);
}

double fedserver_sql_row_real(const fedserver_sql_row *row, int column) {
    return row->engine->real(row, column);
}

const void *fedserver_sql_row_bytes(const fedserver_sql_row *row, int column, size_t *len) {
    return row->engine->bytes(row, column, len);
}

void fedserver_sql_row_text(const fedserver_sql_row *row, int column, char *dst, size_t cap) {
    size_t len;
    const char *text = fedserver_sql_row_bytes(row, column, &len);
    snprintf(dst, cap, "%s", text != NULL ? text : "");
}

fed_status fedserver_sql_count(void *db, int sql, const fedserver_value *values, int count,
                               int64_t *result, fed_error *err) {
    fedserver_sql_row row;
    bool found;
    FED_TRY(fedserver_sql_first(db, sql, values, count, &row, &found, err));
    *result = found ? fedserver_sql_row_int(&row, 0) : 0;
    if (found) {
        fedserver_sql_row_end(&row);
    }
    return FED_OK;
}

static int64_t get_integer(const void *member, size_t size) {
    int64_t wide;
    uint32_t narrow;
    assert(size == sizeof wide || size == sizeof narrow);
    if (size == sizeof wide) {
        memcpy(&wide, member, sizeof wide);
        return wide;
    }
    memcpy(&narrow, member, sizeof narrow);
    return narrow;
}

static void set_integer(int64_t wide, void *member, size_t size) {
    const uint32_t narrow = (uint32_t)wide;
    if (size == sizeof wide) {
        memcpy(member, &wide, sizeof wide);
    } else {
        memcpy(member, &narrow, sizeof narrow);
    }
}

static double get_real(const void *member, size_t size) {
    double wide;
    float narrow;
    if (size == sizeof wide) {
        memcpy(&wide, member, sizeof wide);
        return wide;
    }
    memcpy(&narrow, member, sizeof narrow);
    return (double)narrow;
}

static void set_real(double wide, void *member, size_t size) {
    const float narrow = (float)wide;
    if (size == sizeof wide) {
        memcpy(member, &wide, sizeof wide);
    } else {
        memcpy(member, &narrow, sizeof narrow);
    }
}

void fedserver_columns_bind(const fedserver_column *columns, int count, const void *record,
                            fedserver_value *values) {
    for (int k = 0; k < count; k++) {
        const fedserver_column *c = &columns[k];
        const void *member = (const char *)record + c->offset;
        values[k] = (fedserver_value){.kind = c->kind};
        if (c->kind == FEDSERVER_VALUE_INT) {
            values[k].integer = get_integer(member, c->size);
        } else if (c->kind == FEDSERVER_VALUE_REAL) {
            values[k].real = get_real(member, c->size);
            values[k].null = isnan(values[k].real);
        } else {
            values[k].bytes = member;
            values[k].len = c->size;
        }
    }
}

static void read_column(const fedserver_column *c, const fedserver_sql_row *row, int at,
                        void *member) {
    if (c->kind == FEDSERVER_VALUE_INT) {
        set_integer(fedserver_sql_row_int(row, at), member, c->size);
    } else if (c->kind == FEDSERVER_VALUE_REAL) {
        set_real(fedserver_sql_row_real(row, at), member, c->size);
    } else if (c->kind == FEDSERVER_VALUE_TEXT) {
        fedserver_sql_row_text(row, at, member, c->size);
    } else {
        size_t len;
        const void *bytes = fedserver_sql_row_bytes(row, at, &len);
        if (len == c->size) {
            memcpy(member, bytes, len);
        }
    }
}

int fedserver_columns_read(const fedserver_column *columns, int count, const fedserver_sql_row *row,
                           int first, void *record) {
    for (int k = 0; k < count; k++) {
        read_column(&columns[k], row, first + k, (char *)record + columns[k].offset);
    }
    return first + count;
}
