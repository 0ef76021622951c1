/* The table of pieces: parts of updates that devices are still sending. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "fedserver/stores/sql/sql_calls.h"
#include "fedserver/stores/sql/sql_rows.h"

#define RECORD fed_piece
static const fedserver_column piece_columns[] = {PIECE_COLUMNS(COLUMN, )};
#undef RECORD

fed_status fedserver_sql_piece_add(void *db, int64_t device, const fed_piece *piece,
                                   const uint8_t *data, size_t len, fed_error *err) {
    /* S11 in docs/durability.md: a piece has bytes, and belongs to a lease's message. */
    assert(piece->lease != 0 && len > 0);
    /* S11 in docs/durability.md: the piece lies within the message. */
    assert(piece->offset <= piece->total && len <= piece->total - piece->offset);
    fedserver_value values[COUNT(piece_columns) + 2] = {
        [COUNT(piece_columns)] = INT(device), [COUNT(piece_columns) + 1] = BLOB(data, len)};
    BIND(piece_columns, piece, values);
    return fedserver_sql_write(db, FEDSERVER_SQL_PIECE_ADD, values, COUNT(values), NULL, err);
}

fed_status fedserver_sql_piece_find(void *db, int64_t device, fed_piece *piece, uint64_t *end,
                                    fed_error *err) {
    fedserver_sql_row row;
    bool found;
    FED_TRY(FIRST(PIECE_FIND, &row, &found, INT(device)));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "device %lld has sent no pieces of an update",
                        (long long)device);
    }
    *piece = (fed_piece){0};
    *end = (uint64_t)fedserver_sql_row_int(&row, READ_INTO(piece_columns, &row, 0, piece));
    fedserver_sql_row_end(&row);
    return FED_OK;
}

fed_status fedserver_sql_piece_join(void *db, int64_t device, uint8_t *dst, size_t cap, size_t *len,
                                    fed_error *err) {
    fedserver_sql_row row;
    bool more;
    size_t at = 0;
    FED_TRY(FIRST(PIECE_JOIN, &row, &more, INT(device)));
    while (more) {
        size_t size;
        const void *bytes = fedserver_sql_row_bytes(&row, 1, &size);
        if (fedserver_sql_row_int(&row, 0) != (int64_t)at || size > cap - at || size == 0) {
            fedserver_sql_row_end(&row);
            return fed_fail(
                err, FED_EFORMAT,
                "the pieces of device %lld's update do not fit together; restore the database "
                "from a backup",
                (long long)device);
        }
        memcpy(dst + at, bytes, size);
        at += size;
        FED_TRY(fedserver_sql_row_next(&row, &more, err));
    }
    assert(at <= cap); /* S11 in docs/durability.md: an update has at most cap bytes. */
    *len = at;
    return FED_OK;
}

fed_status fedserver_sql_piece_clear(void *db, int64_t device, fed_error *err) {
    return WRITE(PIECE_CLEAR, INT(device));
}

fed_status fedserver_sql_lease_prune(void *db, uint64_t task, uint32_t round, fed_error *err) {
    FED_TRY(WRITE(PIECE_PRUNE, INT(task), INT(round)));
    return WRITE(LEASE_PRUNE, INT(task), INT(round));
}
