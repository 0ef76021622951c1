/* All updates of a round as rows of a matrix, in a file, since it may be larger than memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ROWS_H
#define FEDSERVER_ROWS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/** The most bytes of the matrix that are in memory at a time, for up to four million rows. The
 * file has 4 * rows * columns bytes. */
enum { FEDSERVER_ROWS_BYTES = 16 << 20 };

typedef struct fedserver_row {
    int64_t device;
    uint64_t lease;
    uint64_t place; /* the row's index in the file */
} fedserver_row;

typedef struct fedserver_rows {
    int file;
    size_t columns;
    /* [count]: the update of each row, in the order of arrival until fedserver_rows_sort */
    fedserver_row *row;
    size_t count, cap;
    uint64_t task;           /* whose updates these are; 0 until the caller sets it */
    uint32_t round;          /* as task */
    const char *directory;   /* that of fedserver_rows_open */
    const atomic_bool *stop; /* becomes true when a strategy should fail soon; NULL: never */
} fedserver_rows;

/** Open an empty matrix, whose `stop` is NULL. Its file lies in the directory, a text that outlives
 * it, and has no name, so the system removes it
 * however the process ends. Threads may have a matrix each in a directory, but only one
 * process may. End with fedserver_rows_close. */
fed_status fedserver_rows_open(fedserver_rows *rows, const char *directory, size_t columns,
                               fed_error *err) FED_CHECKED;
void fedserver_rows_close(fedserver_rows *rows);

/** Add a row. x: float32[columns] */
fed_status fedserver_rows_add(fedserver_rows *rows, int64_t device, uint64_t lease, const float *x,
                              fed_error *err) FED_CHECKED;

/** Sort all rows by device and lease, so that their order of arrival does not matter. */
void fedserver_rows_sort(fedserver_rows *rows);

/** A function called with the columns [first, first + width) of all rows. block: float32
 * (rows->count, width), which the function may change */
typedef void (*fedserver_block_visit)(void *user, float *block, size_t first, size_t width);

/** Visit the matrix in blocks, from left to right. Their widths depend on count and columns
 * only. */
fed_status fedserver_rows_each(const fedserver_rows *rows, fedserver_block_visit visit, void *user,
                               fed_error *err) FED_CHECKED;

#endif
