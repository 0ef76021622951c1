/* An answer in HTTP/1.1 (RFC 9112), read as it comes. Strict: what two readers could understand
 * differently is refused, not guessed. */
#ifndef FEDCLIENT_HTTP1_H
#define FEDCLIENT_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/bytes.h"

enum {
    FEDCLIENT_HTTP1_HEAD = 16384, /* bytes of a head, with those of the 1xx before it, at most */
    FEDCLIENT_HTTP1_LINE = 256    /* of a line that is understood; of others the rest is skipped */
};

typedef enum fedclient_http1_state {
    FEDCLIENT_HTTP1_STATUS_LINE,
    FEDCLIENT_HTTP1_HEADER,
    FEDCLIENT_HTTP1_BODY,        /* of a known length */
    FEDCLIENT_HTTP1_BODY_TO_END, /* of the connection */
    FEDCLIENT_HTTP1_CHUNK_SIZE,
    FEDCLIENT_HTTP1_CHUNK,
    FEDCLIENT_HTTP1_CHUNK_END,
    FEDCLIENT_HTTP1_TRAILER,
    FEDCLIENT_HTTP1_DONE
} fedclient_http1_state;

typedef struct fedclient_http1 {
    /* What the head says. */
    int status;             /* 0: not known yet, or of a 1xx */
    bool continued;         /* a 100 has come */
    bool keep;              /* the connection may be used again when the answer is done */
    uint32_t retry_after_s; /* 0: it does not say, or not in seconds */
    uint64_t tag;           /* ETag, if that is 16 hex digits in quotes; else 0 */
    uint64_t begin,
        total;           /* where the body begins in the whole, and the bytes of that; 0: unknown */
    const char *problem; /* after FED_EFORMAT: what is wrong; static */
    /* The reader's own. */
    fedclient_http1_state state;
    bool after_return, line_cut;
    bool has_length, is_chunked, has_range;
    size_t line_len, head_len;
    uint64_t left; /* of the body, or of a chunk */
    uint64_t length, range_begin, range_total;
    fed_writer *answer;
    size_t limit;
    char line[FEDCLIENT_HTTP1_LINE];
} fedclient_http1;

/** The body goes behind what is in answer, which may become `limit` bytes long. Owner: the caller,
 * who keeps it until the answer is done. */
void fedclient_http1_begin(fedclient_http1 *h, fed_writer *answer, size_t limit);

/**
 * Take what has come. *used: how much of it is the answer's, less than len only once it is done.
 * Errors: FED_EFORMAT it is no such answer; FED_ERANGE it is longer than the limit; FED_ENOMEM.
 * After an error, call no more.
 */
fed_status fedclient_http1_take(fedclient_http1 *h, const void *data, size_t len,
                                size_t *used) FED_CHECKED;

/** The connection has ended. FED_EFORMAT: before the answer did. */
fed_status fedclient_http1_end(fedclient_http1 *h) FED_CHECKED;

#endif
