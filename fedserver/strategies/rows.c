/* The matrix of a round's updates: written row by row, read by blocks of columns. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/strategies/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

fed_status fedserver_rows_open(fedserver_rows *rows, const char *directory, size_t columns,
                               fed_error *err) {
    static atomic_uint opened; /* rounds of several tasks may close at the same time */
    char path[1024];
    snprintf(path, sizeof path, "%s/updates.rows-%u", directory, atomic_fetch_add(&opened, 1));
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) {
        return fed_fail(err, FED_EIO, "%s: can't create the temporary file: %s", path,
                        strerror(errno));
    }
    unlink(path);
    *rows = (fedserver_rows){.file = file, .columns = columns, .directory = directory};
    return FED_OK;
}

void fedserver_rows_close(fedserver_rows *rows) {
    close(rows->file);
    free(rows->row);
    *rows = (fedserver_rows){.file = -1};
}

static fed_status write_all(int file, const void *data, size_t len, fed_error *err) {
    const uint8_t *from = data;
    while (len > 0) {
        ssize_t done = write(file, from, len);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            return fed_fail(err, errno == ENOSPC ? FED_ENOSPC : FED_EIO,
                            "a round's updates can't be written to a temporary file in the "
                            "coordinator's directory: %s",
                            strerror(errno));
        }
        from += done;
        len -= (size_t)done;
    }
    return FED_OK;
}

static fed_status read_all(int file, void *data, size_t len, off_t offset, fed_error *err) {
    uint8_t *to = data;
    while (len > 0) {
        ssize_t done = pread(file, to, len, offset);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return fed_fail(err, FED_EIO,
                            "a round's updates can't be read back from their temporary file: %s",
                            done < 0 ? strerror(errno) : "it is cut off");
        }
        to += done;
        offset += done;
        len -= (size_t)done;
    }
    return FED_OK;
}

fed_status fedserver_rows_add(fedserver_rows *rows, int64_t device, uint64_t lease, const float *x,
                              fed_error *err) {
    if (rows->count == rows->cap) {
        size_t cap = rows->cap < 64 ? 64 : rows->cap * 2;
        fedserver_row *row = realloc(rows->row, cap * sizeof *row);
        if (row == NULL) {
            return fed_fail(err, FED_ENOMEM, "out of memory for the list of a round's updates");
        }
        rows->row = row;
        rows->cap = cap;
    }
    FED_TRY(write_all(rows->file, x, rows->columns * sizeof *x, err));
    rows->row[rows->count] = (fedserver_row){device, lease, rows->count};
    rows->count++;
    return FED_OK;
}

static int by_device_and_lease(const void *a, const void *b) {
    const fedserver_row *p = a, *q = b;
    if (p->device != q->device) {
        return p->device < q->device ? -1 : 1;
    }
    return (p->lease > q->lease) - (p->lease < q->lease);
}

void fedserver_rows_sort(fedserver_rows *rows) {
    qsort(rows->row, rows->count, sizeof *rows->row, by_device_and_lease);
}

fed_status fedserver_rows_each(const fedserver_rows *rows, fedserver_block_visit visit, void *user,
                               fed_error *err) {
    size_t most = FEDSERVER_ROWS_BYTES / sizeof(float) / rows->count;
    most = most < 1 ? 1 : most;
    most = most < rows->columns ? most : rows->columns;
    float *block = malloc(rows->count * most * sizeof *block);
    if (block == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a block of a round's updates");
    }
    fed_status status = FED_OK;
    for (size_t first = 0; first < rows->columns && status == FED_OK; first += most) {
        size_t width = rows->columns - first < most ? rows->columns - first : most;
        for (size_t k = 0; k < rows->count && status == FED_OK; k++) {
            uint64_t value = rows->row[k].place * rows->columns + first;
            status = read_all(rows->file, block + k * width, width * sizeof *block,
                              (off_t)(value * sizeof *block), err);
        }
        if (status == FED_OK) {
            visit(user, block, first, width);
        }
    }
    free(block);
    return status;
}
