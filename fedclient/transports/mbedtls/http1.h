/* A reader of answers in HTTP/1.1 (RFC 9112), fed as bytes arrive. It is strict: for example, it
 * refuses an answer that says twice how long its body is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_HTTP1_H
#define FEDCLIENT_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/bytes.h"

enum {
    FEDCLIENT_HTTP1_HEAD = 16384, /* most bytes of a head and of the 1xx heads before it */
    FEDCLIENT_HTTP1_LINE = 256    /* most bytes kept of a line, with a NUL; the rest is skipped */
};

typedef enum fedclient_http1_state {
    FEDCLIENT_HTTP1_STATUS_LINE,
    FEDCLIENT_HTTP1_HEADER,
    FEDCLIENT_HTTP1_BODY,        /* a body of known length */
    FEDCLIENT_HTTP1_BODY_TO_END, /* a body up to the end of the connection */
    FEDCLIENT_HTTP1_CHUNK_SIZE,
    FEDCLIENT_HTTP1_CHUNK,
    FEDCLIENT_HTTP1_CHUNK_END,
    FEDCLIENT_HTTP1_TRAILER,
    FEDCLIENT_HTTP1_DONE
} fedclient_http1_state;

typedef struct fedclient_http1 {
    /* Out: the answer's head. */
    int status;             /* 0: not read yet */
    bool continued;         /* the interim answer 100 Continue was read */
    bool keep;              /* the connection can be used for another answer */
    uint32_t retry_after_s; /* Retry-After; 0: none, or not in seconds */
    uint64_t tag;           /* ETag, if that is 16 hex digits in quotes; else 0 */
    uint64_t begin, total;  /* position of the body; bytes of the whole, 0: unknown */
    const char *problem;    /* after FED_EFORMAT: what is wrong; static text */
    /* For the reader only. */
    fedclient_http1_state state;
    bool after_return, line_cut;
    bool has_length, is_chunked, has_range;
    size_t line_len, head_len;
    uint64_t left; /* bytes left of the body or the chunk */
    uint64_t length, range_begin, range_total;
    fed_writer *answer;
    size_t limit;
    char line[FEDCLIENT_HTTP1_LINE];
} fedclient_http1;

/** Begin an answer. The body is appended to `answer`, which may grow to `limit` bytes. The caller
 * owns `answer` and keeps it until the answer is done. */
void fedclient_http1_begin(fedclient_http1 *h, fed_writer *answer, size_t limit);

/** Read data[len]. *used: how many bytes belong to the answer; fewer than len only if the answer is
 * done. FED_EFORMAT: not HTTP/1.1; FED_ERANGE: longer than the limit; FED_ENOMEM. After an error,
 * make no further call. */
fed_status fedclient_http1_take(fedclient_http1 *h, const void *data, size_t len,
                                size_t *used) FED_CHECKED;

/** Tell the reader that the connection has ended. FED_EFORMAT: the answer is not complete. */
fed_status fedclient_http1_end(fedclient_http1 *h) FED_CHECKED;

#endif
