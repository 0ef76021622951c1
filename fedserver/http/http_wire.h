/* A connection's bytes below TLS: moves them in few system calls, and reads a proxy's header. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_WIRE_H
#define FEDSERVER_HTTP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "fedserver/http/http_address.h"

/** Bytes that wait in allocated memory: `len` bytes from `data + at`. */
typedef struct http_wire_bytes {
    uint8_t *data;
    size_t at, len;
} http_wire_bytes;

/** The connection below a TLS session. It must outlive the session. */
typedef struct http_wire {
    int fd;                  /* non-blocking socket */
    http_address address;    /* the client's; the proxy's until its PROXY header is read */
    bool proxied;            /* a PROXY header is still to come, which names the client's address */
    bool holds;              /* the next http_wire_push keeps its bytes in `pending`, if they fit */
    uint64_t *progress;      /* grows when bytes move, and at the end of the connection */
    http_wire_bytes ahead;   /* bytes that were read from the socket before TLS asked for them */
    http_wire_bytes pending; /* bytes that the next http_wire_push sends first */
} http_wire;

/* http_wire_pull and http_wire_push return the number of bytes read or taken, or -1 and errno.
 * EAGAIN: call again when the socket is ready. */

/**
 * Get up to `size` bytes. TLS asks for the head of a record, five bytes, and then for the record.
 * So a read takes more than TLS asked for, and the next calls get the rest without a system call.
 * If the peer has closed the connection, errno is ECONNRESET.
 */
ssize_t http_wire_pull(http_wire *wire, void *dst, size_t size);
ssize_t http_wire_push(http_wire *wire, const struct iovec *parts, int part_count);

/** Keep the bytes of the next push, if they fit, and send them with the push after it, in one
 * system call. Call it only where that push is sure to come, as an answer's body after its head. */
void http_wire_hold(http_wire *wire);

/** Free the bytes that wait in memory. */
void http_wire_free(http_wire *wire);

#endif
