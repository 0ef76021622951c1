/* All updates of a round as a matrix that does not fit into memory: a row each, in a file. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ROWS_H
#define FEDSERVER_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/** Most bytes of values in memory at a time, whatever the numbers of rows and columns (up to four
 * million rows). What a file holds is 4 * rows * columns bytes. */
enum { FEDSERVER_ROWS_BYTES = 16 << 20 };

typedef struct fedserver_row {
    int64_t device;
    uint64_t lease;
    uint64_t place; /* in the file, in rows */
} fedserver_row;

typedef struct fedserver_rows {
    int file;
    size_t columns;
    fedserver_row *row; /* [count]; sorted once all are in */
    size_t count, cap;
} fedserver_rows;

/** Nothing yet. The file is in the directory and has no name, so that the system removes it however
 * the process ends; one process at a time. Owner: fedserver_rows_close. */
fed_status fedserver_rows_open(fedserver_rows *rows, const char *directory, size_t columns,
                               fed_error *err) FED_CHECKED;
void fedserver_rows_close(fedserver_rows *rows);

/** One more.   x float32[columns] */
fed_status fedserver_rows_add(fedserver_rows *rows, int64_t device, uint64_t lease, const float *x,
                              fed_error *err) FED_CHECKED;

/** All are in. From here on they are in the order of device and lease, which no order of arrival
 * changes. */
void fedserver_rows_sort(fedserver_rows *rows);

/** Columns first to first + width of all rows.   block float32 (rows->count, width), the visitor's
 * to change */
typedef void (*fedserver_block_visit)(void *user, float *block, size_t first, size_t width);

/** The whole matrix, in blocks from left to right. They depend on count and columns only. */
fed_status fedserver_rows_each(const fedserver_rows *rows, fedserver_block_visit visit, void *user,
                               fed_error *err) FED_CHECKED;

#endif
